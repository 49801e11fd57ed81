/** The form by which visitors report content, and its answers. */
import { clientAddress, html, parseEmail, RefusalError } from '@holdfast/http-kit'
import { type NewReport, reportCategories, reportTextMax } from '@holdfast/moderation'
import type { FastifyRequest } from 'fastify'
import type { WebPage } from './shell.ts'

const labels: Record<(typeof reportCategories)[number], string> = {
  illegal: 'It is against the law',
  copyright: 'It is my work, shared without my permission',
  malware: 'It harms computers',
  personal: 'It shows private matters of a person',
  other: 'Something else',
}

export function reportPage({ name }: { name: string }): WebPage {
  return {
    title: 'Report · Holdfast',
    hidden: true,
    body: html`<h1>Report this content</h1>
<p class="lead">The operator of this service reads each report.</p>
<form class="card" method="post" action="/report/${name}">
<label for="category">What is wrong?</label>
<select id="category" name="category" required>
${reportCategories.map((key) => html`<option value="${key}">${labels[key]}</option>\n`)}</select>
<label for="text">Details, such as names of files</label>
<textarea id="text" name="text" rows="6" maxlength="${reportTextMax}"></textarea>
<label for="contact">Your mail address, if the operator may answer you</label>
<input id="contact" type="email" name="contact" maxlength="254" autocomplete="email">
<button type="submit">Send</button>
</form>
<p class="quiet">The report has your network address. <a href="/d/${name}">Back</a></p>`,
  }
}

export function reportedPage(): WebPage {
  return {
    title: 'Reported · Holdfast',
    hidden: true,
    body: html`<h1>Thank you</h1>\n<p class="lead">The operator has your report.</p>`,
  }
}

/** The queue is full, or full of such reports. */
export function notAddedPage(): WebPage {
  return {
    title: 'Not added · Holdfast',
    hidden: true,
    body: html`<h1>Not added</h1>\n<p class="lead">Many reports wait for the operator already. Yours was not added. Try again tomorrow.</p>`,
  }
}

/** @throws RefusalError naming the field. */
export function reportOf(
  request: FastifyRequest<{ Body: Record<string, unknown> | undefined }>,
  { content, account }: { content: string; account: string },
): NewReport {
  const { category, text = '', contact = '' } = request.body ?? {}
  const known = reportCategories.find((name) => name === category)
  if (known === undefined) throw new RefusalError('error-category')
  if (typeof text !== 'string' || text.length > reportTextMax) throw new RefusalError('error-text')
  const mail = contact === '' ? '' : typeof contact === 'string' ? parseEmail(contact) : undefined
  if (mail === undefined) throw new RefusalError('error-contact')
  // A row has room for the longest text in any script, not for escapes.
  const plain = text
    .toWellFormed()
    .replace(/[\p{Cc}\\"]/gu, (sign) => (sign === '\n' || sign === '"' ? sign : ' '))
  return { content, account, category: known, text: plain, contact: mail, address: clientAddress(request) }
}
