import { html } from '@holdfast/http-kit'
import type { WebPage } from './shell.ts'

/**
 * A page that the script fills: the token is in the address' fragment and in this tab alone; the
 * server never sees it through this page.
 */
export function profilePage(): WebPage {
  return {
    title: 'Account · Holdfast',
    hidden: true,
    scripts: ['profile.js'],
    body: html`<h1>Your account</h1>
<noscript><p class="card">This page needs JavaScript: the sign-in link keeps your token out of every request, so only your browser can read it. Without JavaScript use a program: the API takes the token as <code>Authorization: Bearer …</code>, and <a href="/docs">its documentation</a> says how to confirm an address.</p></noscript>
<p id="problem" class="bad" role="alert" hidden></p>
<section id="sign-in" class="card" hidden>
<h2>Sign in</h2>
<form id="mail-form"><label for="email">E-mail address</label>
<input id="email" type="email" name="email" required autocomplete="email" maxlength="254">
<button type="submit">Mail me a sign-in link</button></form>
<p id="mailed" class="quiet" hidden>If the address is right, a link is on its way. A new address gets a new account, where anybody may sign up.</p>
<form id="token-form"><label for="token">Or paste an account token</label>
<input id="token" type="password" name="token" required autocomplete="off" maxlength="64">
<button type="submit">Sign in</button></form>
</section>
<section id="confirm" class="card" hidden>
<h2>Is this address yours?</h2>
<p>You came by a link that was mailed to <strong id="confirm-email"></strong>. Confirm the address to go on.</p>
<p class="quiet">The account was made by someone who named this address. Confirming makes a new account token, so that only you can change it. A new sign-in link is mailed to you; the old one stops working.</p>
<p id="confirm-contents" class="quiet" hidden>The account holds <strong id="confirm-held"></strong> already. If you did not put them there, delete them after you sign in: public folders and direct links that were made before stay open.</p>
<form id="confirm-form">
<p><label class="switch"><input type="checkbox" id="keep-token"> A program of mine made this account and uses its token: keep the token</label></p>
<button type="submit">Confirm and sign in</button>
</form>
<p class="quiet">If you know nothing of this account, close the page. Nothing changes then.</p>
</section>
<div id="account" hidden>
<section class="card">
<h2>Details</h2>
<dl id="details"></dl>
<p><button type="button" id="sign-out">Sign out of this tab</button></p>
</section>
<section class="card">
<h2>Account token</h2>
<p class="quiet">Anyone who has it has the account. Programs send it as <code>Authorization: Bearer …</code></p>
<p><input id="token-shown" type="password" readonly aria-label="Account token"> <button type="button" id="show-token">Show</button> <button type="button" data-copy="token-shown">Copy</button></p>
<p><button type="button" id="reset-token">Make a new token</button></p>
</section>
<section class="card">
<h2>Recycle bin</h2>
<p><label class="switch"><input type="checkbox" id="bin"> Keep deleted content for 30 days</label></p>
</section>
<section id="invite" class="card" hidden>
<h2>Invite</h2>
<form id="invite-form"><label for="invite-email">E-mail address</label>
<input id="invite-email" type="email" name="email" required autocomplete="off" maxlength="254">
<button type="submit">Make an invitation</button></form>
<div id="invited" hidden><p class="quiet">Send this link to that address. It makes one account, within seven days.</p>
<p><input id="invitation" readonly aria-label="Invitation"> <button type="button" data-copy="invitation">Copy</button></p></div>
</section>
<section class="card">
<h2>Content</h2>
<p id="path"></p>
<table><thead><tr><th>Name</th><th class="number">Size</th><th>Sharing</th></tr></thead><tbody id="entries"></tbody></table>
<p id="more" class="pager" hidden><button type="button" id="previous">← Previous</button> <span id="page-of" class="quiet"></span> <button type="button" id="next">Next →</button></p>
</section>
</div>`,
  }
}
