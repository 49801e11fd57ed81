/** HTML in template literals: every inserted value is text, unless the same tag made it. */

export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Part = Html | string | number | undefined | false | readonly (Html | false | undefined)[]

export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  let text = strings[0] as string
  for (const [index, part] of parts.entries()) text += written(part) + strings[index + 1]
  return new Html(text)
}

function written(part: Part): string {
  if (part === undefined || part === false) return ''
  if (part instanceof Html) return part.text
  return typeof part === 'object' ? part.map(written).join('') : escapeHtml(String(part))
}

const escapes: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.toWellFormed().replace(/[&<>"']/g, (character) => escapes[character] as string)
}
