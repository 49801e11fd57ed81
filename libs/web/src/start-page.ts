import { html } from './html.ts'
import type { Page } from './shell.ts'

/**
 * What this is, and its most frequent use. Works as a plain form; the script adds progress and the
 * link.
 */
export function startPage({ uploadUrl }: { uploadUrl: string }): Page {
  return {
    title: 'Holdfast: store and share files',
    scripts: ['upload.js'],
    body: html`<h1>Store files. Share them by link.</h1>
<p class="lead">No account needed: the first upload makes one for you.</p>
<form id="upload" class="card" method="post" enctype="multipart/form-data" action="${uploadUrl}/uploadfile">
<label for="file" class="drop">
<span>Choose files, or drop them here</span>
<input id="file" type="file" name="file" multiple required>
</label>
<button type="submit">Upload</button>
<ul id="transfers" class="plain" aria-live="polite"></ul>
</form>
<section id="shared" class="card" hidden aria-live="polite">
<h2>Your link</h2>
<p><a id="page" href="/"></a> <button type="button" data-copy="page">Copy</button></p>
<p class="quiet">Anyone who has this link can see the folder. To change or delete it later, keep your
<a id="account" href="/profile">account link</a>: it is the only key.</p>
</section>
<section class="card">
<h2>From a terminal</h2>
<pre><code>curl -F file=@report.pdf ${uploadUrl}/uploadfile</code></pre>
<p class="quiet">The interface is described at <a href="/openapi.json">/openapi.json</a>.</p>
</section>`,
  }
}
