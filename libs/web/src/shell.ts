/** The frame of every page, and its headers. */

import { type Html, html } from '@holdfast/http-kit'
import type { FastifyReply } from 'fastify'

export interface WebPage {
  title: string
  body: Html
  /** Names of scripts under /assets. */
  scripts?: string[]
  /** Pages that show shared or personal content stay out of search engines. */
  hidden?: boolean
}

export interface Origins {
  /** The upload host: the only other host that a page may contact. */
  upload: string
}

/** Sends a page. Only content from this origin can run, load or frame it. */
export function sendPage(
  answer: FastifyReply,
  page: WebPage,
  { code = 200, origins }: { code?: number; origins: Origins },
) {
  const upload = new URL(origins.upload).origin
  return answer
    .code(code)
    .headers({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        `connect-src 'self' ${upload}`,
        `form-action 'self' ${upload}`,
        "base-uri 'none'",
        "frame-ancestors 'none'",
      ].join('; '),
      'cross-origin-opener-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      ...(page.hidden === true ? { 'x-robots-tag': 'noindex' } : {}),
    })
    .send(documentOf(page).text)
}

function documentOf({ title, body, scripts = [] }: WebPage): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/style.css">
${scripts.map((name) => html`<script src="/assets/${name}" type="module"></script>\n`)}</head>
<body>
<header class="top"><a class="brand" href="/">Holdfast</a><nav><a href="/">Upload</a> <a href="/profile">Account</a></nav></header>
<main>
${body}
</main>
</body>
</html>
`
}
