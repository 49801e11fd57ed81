/** Phrases that readers stumble over. A process, a client and a user are "it". */
const phrases = [
  ...[
    'whoever',
    'whatever',
    'nobody',
    'he',
    'his',
    'him',
    'himself',
    'anew',
    'for ever',
    'a word to',
    'without a word',
  ],
  ...['goes out with', 'stands? still', 'stood still', 'sent away', 'turned away'],
  ...['further ado', 'of its own accord', 'behind the scenes', 'to be had', 'lets go of'],
  ...['takes? back', 'taken back', 'took back', 'taking back', 'given back', 'gives? back'],
  ...['left alone', 'leaves? alone', 'at hand', 'in hand', 'breaks? off', 'broke off'],
  ...['from before', 'told apart', 'the book', 'mends', 'mending'],
  ...['all the same', 'now and then', 'stands? beside', 'come true', 'next life', 'no circles'],
  ...['(is|are|was|were) told', 'believes? that'],
  ...['in vain', 'for want of', 'least of all', 'no harm is done'],
  ...['(process|program|function|name|text|setting|part)(es|s)? of ours', '(all|none|nothing) of ours'],
]
const phrase = new RegExp(`\\b(${phrases.join('|')})\\b(?!@)|\\bso (many|long)\\b(?! that)`, 'i')

/** The file with the list itself. */
export const listOfPhrases = 'test/support/plain-english.ts'

/** Lines of a text with such a phrase, as `line: phrase`. */
export function riddlesIn(text: string): string[] {
  return text.split('\n').flatMap((line, index) => {
    const [found] = phrase.exec(line) ?? []
    return found === undefined ? [] : [`${index + 1}: ${found}`]
  })
}
