import { type Html, html } from './html.ts'

/** A time for readers of a page, to the minute. @param seconds Unix */
export function timeElement(seconds: number): Html {
  const iso = new Date(seconds * 1000).toISOString()
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace('T', ' ')} UTC</time>`
}
