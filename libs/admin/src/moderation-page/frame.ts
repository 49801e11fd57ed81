/** The frame of the moderation page, and the pieces that its views share. */

import { type Html, html } from '@holdfast/http-kit'
import type { FastifyReply } from 'fastify'
import { reasonCharactersMax } from '../moderation/moderation.ts'

export interface View {
  title: string
  body: Html
}

/** Hidden fields of every form. */
export interface FormFields {
  /** A token that only forms of this service have, against requests that other sites forge. */
  mark: string
  /** The address of the page to which the answer returns. */
  back: string
}

const policy = [
  "default-src 'none'",
  "style-src 'self'",
  "img-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

export function sendView(answer: FastifyReply, { title, body }: View, code = 200): FastifyReply {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Holdfast moderation</title>
<link rel="stylesheet" href="/moderation/style.css">
</head>
<body>
<header><a class="brand" href="/moderation">Moderation</a>
<nav><a href="/moderation/reports">Reports</a> <a href="/moderation/blocked">Blocked</a> <a href="/moderation/acts">Acts</a></nav></header>
<main>
${body}
</main>
</body>
</html>
`
  return answer
    .code(code)
    .headers({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      'cross-origin-opener-policy': 'same-origin',
      'cache-control': 'no-store',
      'referrer-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
    })
    .send(page.text)
}

/** A form of buttons with a reason; each button is one act. */
export function actForm(
  { mark, back }: FormFields,
  fields: Record<string, string>,
  buttons: readonly { act: string; label: string }[],
): Html {
  const hidden = Object.entries({ mark, back, ...fields })
  return html`<form class="acts" method="post" action="/moderation/act">
${hidden.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
<label>Reason <input name="reason" maxlength="${reasonCharactersMax}" autocomplete="off"></label>
<span>${buttons.map(({ act, label }) => html`<button name="act" value="${act}">${label}</button> `)}</span>
</form>`
}

export function searchForm(text: string): Html {
  return html`<form class="search" method="get" action="/moderation">
<label for="q">Link, code, id, account, address, network, md5, BLAKE3, or a part of a name</label>
<div><input id="q" name="q" type="search" value="${text}" maxlength="4096" autocomplete="off"><button>Search</button></div>
</form>`
}

export function detailList(rows: readonly (readonly [string, string | number | Html])[]): Html {
  return html`<dl>${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>\n`)}</dl>`
}

export function find(text: string, label = text): Html {
  return html`<a href="/moderation?${new URLSearchParams({ q: text }).toString()}">${label}</a>`
}

export function pager(
  path: string,
  next: string | undefined,
  query: Record<string, string> = {},
): Html | undefined {
  if (next === undefined) return undefined
  return html`<p><a href="${path}?${new URLSearchParams({ ...query, after: next }).toString()}">Older →</a></p>`
}
