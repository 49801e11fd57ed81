/** The account page: signs in by the address' fragment, shows what the account holds. */
import { byId, bytesText, commonReasons, keepToken, keptToken, wireCopyButtons } from './page.js'

const pageSize = 100

/** Folders from the root to the current one. */
let path = []
let page = 1
let account
/**
 * The proof from the mail, which confirms the address. The tab keeps it, so that the page can be
 * reloaded before the confirmation.
 */
const proofKey = 'holdfast.mailed'
/** A second attempt of one confirmation is the same request. */
const confirmationKey = Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join('-')

takeTokenFromAddress()
let invitation = invitationInAddress()
window.addEventListener('hashchange', () => {
  invitation = invitationInAddress() ?? invitation
  if (takeTokenFromAddress()) void start()
})
wireButtons()
wireCopyButtons()
void start()

/**
 * The fragment is removed from the address at once, so that no history and no copied address holds
 * the token.
 */
function takeTokenFromAddress() {
  const sent = new URLSearchParams(location.hash.slice(1))
  const token = sent.get('token')
  if (!token) return false
  keepToken(token)
  keepProof(sent.get('mailed'))
  history.replaceState(null, '', location.pathname)
  return true
}

/** Fills the address in; it is sent with the form. */
function invitationInAddress() {
  const sent = new URLSearchParams(location.hash.slice(1))
  if (!sent.get('invitation')) return undefined
  byId('email').value = sent.get('email') ?? ''
  return sent.get('invitation')
}

function keepProof(proof) {
  if (proof) sessionStorage.setItem(proofKey, proof)
  else sessionStorage.removeItem(proofKey)
}

async function start() {
  const token = keptToken()
  byId('sign-in').hidden = token !== undefined
  byId('account').hidden = true
  byId('confirm').hidden = true
  if (token === undefined) return
  try {
    const { data: who } = await call('GET', '/accounts/getid')
    account = (await call('GET', `/accounts/${who.id}`)).data
    if (!account.emailConfirmed && sessionStorage.getItem(proofKey)) {
      byId('confirm-email').textContent = account.email
      const { fileCount, folderCount } = account.statsCurrent
      byId('confirm-held').textContent = `${fileCount} files and ${folderCount} folders`
      byId('confirm-contents').hidden = fileCount + folderCount === 0
      byId('confirm').hidden = false
      return
    }
    path = [{ id: account.rootFolder, name: 'root' }]
    page = 1
    showAccount()
    await showFolder()
    byId('account').hidden = false
  } catch (error) {
    fail(error)
    if (error.message === 'error-token') {
      keepToken(undefined)
      byId('sign-in').hidden = false
    }
  }
}

function showAccount() {
  const { statsCurrent: stats, limits } = account
  const of = (limit, write = String) => (limit == null ? '' : ` of ${write(limit)}`)
  const rows = {
    'E-mail': addressText(),
    Tier: account.premiumType ? `${account.tier} (${account.premiumType})` : account.tier,
    Stored: `${bytesText(stats.storage)}${of(limits.storage, bytesText)}`,
    Contents: `${stats.fileCount + stats.folderCount}${of(limits.contents)}: files ${stats.fileCount}, folders ${stats.folderCount}`,
    'Account id': account.id,
  }
  byId('details').replaceChildren(
    ...Object.entries(rows).flatMap(([name, value]) => [element('dt', name), element('dd', value)]),
  )
  byId('token-shown').value = keptToken()
  byId('bin').checked = account.recycleBin.enabled
  byId('invite').hidden = account.tier === 'guest'
}

function addressText() {
  if (account.email.endsWith('@guest.invalid')) return 'none: a guest account'
  return account.emailConfirmed ? account.email : `${account.email} (not confirmed)`
}

async function confirmAddress() {
  const kept = byId('keep-token').checked
  const body = { mailed: sessionStorage.getItem(proofKey), keepToken: kept }
  const headers = { 'Idempotency-Key': `${confirmationKey}-${kept}` }
  const { data } = await call('POST', `/accounts/${account.id}/confirm`, body, { headers })
  keepToken(data.token)
  keepProof(undefined)
  await start()
}

async function showFolder() {
  const { id } = path.at(-1)
  const query = new URLSearchParams({ page, pageSize, sortField: 'name', sortDirection: 1 })
  const { data, metadata } = await call('GET', `/web/contents/${id}?${query}`)
  byId('entries').replaceChildren(...Object.values(data.children).map(rowOf))
  byId('path').replaceChildren(...path.flatMap(stepOf))
  byId('more').hidden = metadata.totalPages <= 1
  byId('page-of').textContent = `Page ${metadata.page} of ${metadata.totalPages}`
  byId('previous').disabled = page <= 1
  byId('next').disabled = !metadata.hasNextPage
}

function rowOf(item) {
  const row = document.createElement('tr')
  const name = element('td')
  name.className = 'name'
  if (item.type === 'folder') name.append(buttonTo(item.name, () => open([...path, item])))
  else name.append(link(item.link, item.name))
  const size = element('td', item.type === 'file' ? bytesText(item.size) : '')
  size.className = 'number'
  const shared = element('td')
  if (item.type === 'folder') shared.append(item.public ? link(`/d/${item.code}`, 'public page') : 'private')
  row.append(name, size, shared)
  return row
}

function stepOf(folder, index) {
  const here = index === path.length - 1
  const step = here
    ? element('bdi', folder.name)
    : buttonTo(folder.name, () => open(path.slice(0, index + 1)))
  return index === 0 ? [step] : [' / ', step]
}

function open(to) {
  path = to
  page = 1
  void showFolder().catch(fail)
}

function wireButtons() {
  byId('mail-form').addEventListener('submit', (event) => {
    event.preventDefault()
    void mailLink(new FormData(event.target).get('email')).catch(fail)
  })
  byId('confirm-form').addEventListener('submit', (event) => {
    event.preventDefault()
    void confirmAddress().catch(fail)
  })
  byId('invite-form').addEventListener('submit', (event) => {
    event.preventDefault()
    void invite(new FormData(event.target).get('email')).catch(fail)
  })
  byId('token-form').addEventListener('submit', (event) => {
    event.preventDefault()
    keepProof(undefined)
    keepToken(String(new FormData(event.target).get('token')).trim())
    event.target.reset()
    void start()
  })
  byId('sign-out').addEventListener('click', () => {
    keepToken(undefined)
    keepProof(undefined)
    void start()
  })
  byId('show-token').addEventListener('click', ({ target }) => {
    const shown = byId('token-shown')
    shown.type = shown.type === 'password' ? 'text' : 'password'
    target.textContent = shown.type === 'password' ? 'Show' : 'Hide'
  })
  byId('reset-token').addEventListener('click', () => void resetToken().catch(fail))
  byId('bin').addEventListener('change', ({ target }) => void switchBin(target).catch(fail))
  byId('previous').addEventListener('click', () => turnPage(-1))
  byId('next').addEventListener('click', () => turnPage(1))
}

function turnPage(step) {
  page += step
  void showFolder().catch(fail)
}

async function mailLink(email) {
  try {
    await call('POST', '/accounts', { email, invitation }, { signedIn: false })
  } catch (error) {
    // A known address gets such an answer, and a mail with its link.
    if (error.message !== 'error-email' && error.message !== 'error-forbidden') throw error
  }
  byId('mailed').hidden = false
}

async function invite(email) {
  const { data } = await call('POST', `/accounts/${account.id}/invitations`, { email })
  byId('invitation').value = data.link
  byId('invited').hidden = false
}

async function resetToken() {
  const warning =
    account.tier === 'guest'
      ? 'A guest account has no inbox for its new token: you would lose the account. Go on?'
      : 'The old token and every sign-in link stop working at once; the new link comes by mail. Go on?'
  if (!confirm(warning)) return
  await call('POST', `/accounts/${account.id}/resettoken`, {})
  keepToken(undefined)
  await start()
  byId('mailed').hidden = false
}

async function switchBin(box) {
  try {
    await call('PUT', '/web/account', { recycleBin: box.checked })
  } catch (error) {
    box.checked = !box.checked
    throw error
  }
}

async function call(method, target, body, { signedIn = true, headers = {} } = {}) {
  byId('problem').hidden = true
  const response = await fetch(target, {
    method,
    referrerPolicy: 'no-referrer',
    headers: {
      ...headers,
      ...(signedIn ? { Authorization: `Bearer ${keptToken()}` } : {}),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const answer = await response.json()
  if (answer.status !== 'ok') throw new Error(answer.status)
  return answer
}

const reasons = {
  ...commonReasons,
  'error-token': 'This token is not valid, or not any more.',
  'error-mailed': 'This link does not belong to this account. Ask for a new one.',
  'error-forbidden': 'That is not allowed here.',
  'error-email': 'That is no usable e-mail address.',
}

function fail(error) {
  byId('problem').textContent = reasons[error.message] ?? `That did not work (${error.message}).`
  byId('problem').hidden = false
}

function element(tag, text = '') {
  const made = document.createElement(tag)
  made.textContent = text
  return made
}

function link(href, text) {
  const made = document.createElement('a')
  made.href = href
  made.append(element('bdi', text))
  return made
}

function buttonTo(text, onClick) {
  const made = document.createElement('button')
  made.type = 'button'
  made.className = 'link'
  made.append(element('bdi', text))
  made.addEventListener('click', onClick)
  return made
}
