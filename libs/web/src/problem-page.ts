import { html } from '@holdfast/http-kit'
import type { WebPage } from './shell.ts'

const words: Record<string, { title: string; text: string }> = {
  'error-notFound': {
    title: 'Nothing here',
    text: 'The link is wrong, or what it led to has expired or was deleted.',
  },
  'error-notOwner': {
    title: 'This is private',
    text: 'Its owner has not shared it. The owner finds it under Account.',
  },
  'error-rateLimit': { title: 'Too many requests', text: 'Wait a minute, then try again.' },
  'error-blocked': { title: 'Not available', text: 'This content was blocked.' },
  'error-category': { title: 'Not sent', text: 'Choose what is wrong, then send it again.' },
  'error-text': { title: 'Not sent', text: 'The details are too long: at most 1,000 characters.' },
  'error-contact': { title: 'Not sent', text: 'That is no mail address. Correct it, or leave it empty.' },
  'error-unavailable': {
    title: 'Temporarily unavailable',
    text: 'A part of the service does not answer. Try again in a moment.',
  },
}

const unknown = { title: 'That did not work', text: 'The service failed. Try again in a moment.' }

/** A refusal in words. */
export function problemPage(status: string): WebPage {
  const { title, text } = words[status] ?? unknown
  return {
    title: `${title} · Holdfast`,
    hidden: true,
    body: html`<h1>${title}</h1>\n<p class="lead">${text}</p>`,
  }
}

/** The password form of a protected folder. */
export function passwordPage({ id, wrong }: { id: string; wrong: boolean }): WebPage {
  return {
    title: 'Password · Holdfast',
    hidden: true,
    body: html`<h1>This folder has a password</h1>
<form class="card" method="post" action="/d/${id}">
<label for="password">Password</label>
<input id="password" type="password" name="password" required maxlength="100" autofocus autocomplete="current-password">
${wrong && html`<p class="bad" role="alert">That is not it.</p>`}
<button type="submit">Open</button>
</form>`,
  }
}
