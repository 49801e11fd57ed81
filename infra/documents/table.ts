/** A Markdown table. A bar within a cell is escaped. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

/** Names the source of a page; such pages are not edited by hand. */
export const generatedMark = '<!-- Written by `npm run documents`. Do not edit. -->'
