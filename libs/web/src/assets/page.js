/** Code that several pages share. */

const tokenKey = 'holdfast.token'

/** Why a call failed, by status: what every page says. */
export const commonReasons = {
  'error-accountId': 'The token of this tab belongs to another account: load the page again.',
  'error-blocked': 'The operator does not allow this content, or this account.',
  'error-bodySize': 'The request is too large.',
  'error-internal': 'The service failed.',
  'error-limits': 'The account is full.',
  'error-notFound': 'The folder is gone: load the page again.',
  'error-notOwner': 'This belongs to another account: load the page again.',
  'error-rateLimit': 'Too many requests: wait a minute.',
  'error-storageFull': 'The service has no space left.',
  'error-timeout': 'The connection was too slow: try again.',
  'error-unavailable': 'A part of the service is out of reach: try again.',
}

/** The token of this tab: it is lost with the tab, and sent only in requests that need it. */
export function keptToken() {
  return sessionStorage.getItem(tokenKey) ?? undefined
}

export function keepToken(token) {
  if (token === undefined) sessionStorage.removeItem(tokenKey)
  else sessionStorage.setItem(tokenKey, token)
}

export function byId(id) {
  return document.getElementById(id)
}

/** Buttons with data-copy copy the value, address or text of the element they name. */
export function wireCopyButtons() {
  for (const button of document.querySelectorAll('[data-copy]')) {
    button.addEventListener('click', () => void copyFor(button))
  }
}

async function copyFor(button) {
  const source = byId(button.dataset.copy)
  await navigator.clipboard.writeText(source.value ?? source.href ?? source.textContent)
  const label = button.textContent
  button.textContent = 'Copied'
  setTimeout(() => {
    button.textContent = label
  }, 1500)
}

/** Three digits and a unit. */
export function bytesText(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let value = bytes
  let unit = 0
  for (; value >= 999.5 && unit < units.length - 1; unit++) value /= 1000
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}
