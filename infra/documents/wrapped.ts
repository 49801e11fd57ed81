/**
 * The text of a Markdown page with lines of at most 120 columns. Only paragraphs and list items
 * with a longer line change. Code, tables, headings and quotations stay as they are, and so does a
 * code span: it is never broken. An item of a list keeps its indentation.
 */
const columnsMax = 120

/** Lines that are no text: code fences, tables, headings, HTML, quotations, pictures. */
const noText = /^\s*(```|\||#|<|>|!\[)/
const item = /^\s*(?:[-*+]|\d+\.) /
/** At the begin of a line these would begin a list, a table, a heading or a quotation. */
const marks = /^([-+*#>|=]+|\d+[.)])$/

export function wrapPage(page: string): string {
  const lines = page.split('\n')
  const result: string[] = []
  let isCode = false
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] as string
    if (/^\s*```/.test(line)) isCode = !isCode
    if (isCode || line.trim() === '' || noText.test(line)) {
      result.push(line)
      at += 1
      continue
    }
    let end = at + 1
    while (end < lines.length && continues(lines[end] as string)) end += 1
    result.push(...paragraph(lines.slice(at, end)))
    at = end
  }
  return result.join('\n')
}

function continues(line: string): boolean {
  return line.trim() !== '' && !noText.test(line) && !item.test(line)
}

function paragraph(lines: readonly string[]): readonly string[] {
  if (lines.every((line) => line.length <= columnsMax)) return lines
  const [first = ''] = lines
  const begin = item.exec(first)?.[0] ?? /^\s*/.exec(first)?.[0] ?? ''
  const indentation = ' '.repeat(begin.length)
  const result: string[] = []
  let line = begin
  for (const word of wordsOf(
    lines
      .map((each) => each.trim())
      .join(' ')
      .slice(begin.trimStart().length),
  )) {
    if (line.trim() !== begin.trim() && line.length + word.length >= columnsMax) {
      result.push(line)
      line = indentation
    }
    line += line.length <= begin.length ? word : ` ${word}`
  }
  return [...result, line]
}

/** What stays on one line: words, code spans, and a mark with the word before it. */
function wordsOf(text: string): string[] {
  const words: string[] = []
  for (const word of text.match(/(?:`[^`]*`|[^\s`])+/g) ?? [])
    if (words.length > 0 && marks.test(word)) words.push(`${words.pop()} ${word}`)
    else words.push(word)
  return words
}
