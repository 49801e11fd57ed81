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
const said = [`\\b(${phrases.join('|')})\\b(?!@)`, '\\bso (many|long)\\b(?! that)']
const phrase = new RegExp(said.join('|').replaceAll(' ', '\\s'), 'gi')

/** The file with the list itself. */
export const listOfPhrases = 'test/support/plain-english.ts'

/** Begins a line of a comment. */
const commentMark = /^\s*(?:\/\/|\/?\*+(?!\/)|#+(?= ))\s*/
/** Continues no sentence: an item of a list, a tag, a row of a table, a heading, an empty line. */
const beginsItself = /^(?:[-*|@#>]|\d+\.|$)/

/** Such phrases in a text, also over line breaks, as `line: phrase`: the line where each begins. */
export function riddlesIn(text: string, kind: { isMarkdown: boolean }): string[] {
  return passagesOf(text, kind).flatMap(({ line, words }) =>
    [...words.matchAll(phrase)].map(({ 0: found, index }) => {
      const before = words.slice(0, index).split('\n').length - 1
      return `${line + before}: ${found.replace('\n', ' ')}`
    }),
  )
}

/** The lines of each paragraph of a comment or a page together; other lines alone. */
function passagesOf(text: string, { isMarkdown }: { isMarkdown: boolean }) {
  const passages: { line: number; words: string }[] = []
  let continues = false
  let isFenced = false
  for (const [index, line] of text.split('\n').entries()) {
    if (isMarkdown && /^\s*```/.test(line)) isFenced = !isFenced
    const isProse = isMarkdown ? !isFenced : commentMark.test(line)
    const words = (isMarkdown ? line : line.replace(commentMark, '')).trim()
    const last = passages.at(-1)
    if (last && continues && isProse && !beginsItself.test(words)) last.words += `\n${words}`
    else passages.push({ line: index + 1, words })
    continues = isProse && !/^(?:[|#]|$)|\*\/$/.test(words)
  }
  return passages
}
