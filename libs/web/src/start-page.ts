import { type Html, html } from '@holdfast/http-kit'
import type { WebPage } from './shell.ts'

/** The operator's bounds of uploads. Times in seconds; undefined: no bound. */
export interface UploadRules {
  guestUploads: boolean
  fileBytesMax: number | undefined
  lifetimes: Record<'guest' | 'standard', LifetimeRules>
}

export interface LifetimeRules {
  folderSeconds: number | undefined
  folderSecondsMax: number | undefined
  idleSeconds: number | undefined
}

/**
 * A description of the service, and an upload form. Works as a plain form; the script adds progress
 * and the link.
 */
export function startPage({ uploadUrl, rules }: { uploadUrl: string; rules: UploadRules }): WebPage {
  return {
    title: 'Holdfast: store and share files',
    scripts: ['upload.js'],
    body: html`<h1>Store files. Share them by link.</h1>
<p class="lead">${
      rules.guestUploads
        ? 'No account needed: the first upload makes one for you.'
        : 'Uploads need an account.'
    }</p>
<form id="upload" class="card" method="post" enctype="multipart/form-data" action="${uploadUrl}/uploadfile">
<label for="file" class="drop">
<span>Choose files, or drop them here</span>
<input id="file" type="file" name="file" multiple required>
</label>
<button type="submit">Upload</button>
<ul id="transfers" class="plain" aria-live="polite"></ul>
${rulesOf(rules)}
</form>
<section id="shared" class="card" hidden aria-live="polite">
<h2>Your link</h2>
<p><a id="page" href="/"></a> <button type="button" data-copy="page">Copy</button></p>
<p class="quiet">Anyone who has this link can see the folder. To change or delete it later, keep your
<a id="account" href="/profile">account link</a>: it is the only key.</p>
</section>
<section class="card">
<h2>From a terminal</h2>
<pre><code>curl ${rules.guestUploads ? '' : '-H "Authorization: Bearer $token" '}-F file=@report.pdf ${uploadUrl}/uploadfile</code></pre>
<p class="quiet">The interface is described at <a href="/openapi.json">/openapi.json</a>.</p>
</section>`,
  }
}

function rulesOf({ fileBytesMax, lifetimes }: UploadRules): Html | undefined {
  const lines = [
    ...(fileBytesMax === undefined ? [] : [`A file has at most ${bytesInWords(fileBytesMax)}.`]),
    ...lifetimeLines('Without an account', lifetimes.guest),
    ...lifetimeLines('In standard accounts', lifetimes.standard),
  ]
  if (lines.length === 0) return undefined
  return html`<ul id="rules" class="plain quiet">${lines.map((line) => html`<li>${line}</li>`)}</ul>`
}

function lifetimeLines(where: string, rules: LifetimeRules): string[] {
  const { folderSeconds, folderSecondsMax, idleSeconds } = rules
  const usual = folderSeconds ?? folderSecondsMax
  const longest =
    folderSecondsMax === undefined || folderSecondsMax === usual
      ? ''
      : `, ${timeInWords(folderSecondsMax)} at most`
  return [
    ...(usual === undefined
      ? []
      : [`${where}, a folder is deleted ${timeInWords(usual)} after it was made${longest}.`]),
    ...(idleSeconds === undefined
      ? []
      : [`${where}, a file is deleted when it was not downloaded for ${timeInWords(idleSeconds)}.`]),
  ]
}

function timeInWords(seconds: number): string {
  for (const [unit, size] of [
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
  ] as const) {
    if (seconds < size) continue
    const count = Math.round((seconds / size) * 10) / 10
    return `${count} ${unit}${count === 1 ? '' : 's'}`
  }
  return `${seconds} second${seconds === 1 ? '' : 's'}`
}

function bytesInWords(bytes: number): string {
  // As the operator set it: 1 MB is no 976.6 KiB.
  const isBinary = bytes % 1024 === 0
  const units = isBinary ? ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] : ['bytes', 'kB', 'MB', 'GB', 'TB']
  const step = isBinary ? 1024 : 1000
  let unit = 0
  for (let rest = bytes; rest >= step && unit < units.length - 1; rest /= step) unit++
  return `${Math.round((bytes / step ** unit) * 10) / 10} ${units[unit]}`
}
