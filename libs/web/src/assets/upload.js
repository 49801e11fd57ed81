/** Uploads one file after the other into one folder, with progress, and shows the link. */
import { byId, commonReasons, keepToken, keptToken, wireCopyButtons } from './page.js'

const form = byId('upload')
const chooser = byId('file')
const drop = form.querySelector('.drop')

/** The folder of the next file; known after the first. */
let folderId

const reasons = {
  ...commonReasons,
  'error-fileSize': 'The file is too large.',
  'error-bodySize': 'The file is too large.',
  'error-forbidden': 'Guests may not upload here.',
  'error-protectedFolder': 'The folder takes no files: load the page again.',
  'error-token': 'This tab’s account token is no longer valid: sign in again.',
}

form.addEventListener('submit', (event) => {
  event.preventDefault()
  void uploadAll([...chooser.files])
})

for (const kind of ['dragenter', 'dragover', 'dragleave', 'drop']) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault()
    drop.classList.toggle('over', kind === 'dragenter' || kind === 'dragover')
    if (kind !== 'drop' || event.dataTransfer.files.length === 0) return
    chooser.files = event.dataTransfer.files
    form.requestSubmit()
  })
}

wireCopyButtons()

async function uploadAll(files) {
  const button = form.querySelector('button')
  button.disabled = true
  for (const file of files) await uploadOne(file)
  button.disabled = false
  form.reset()
}

async function uploadOne(file) {
  const { item, bar, say } = showTransfer(file.name)
  byId('transfers').append(item)
  try {
    const answer = await send(file, (share) => {
      bar.value = share
    })
    if (answer.status !== 'ok') throw new Error(reasons[answer.status] ?? answer.status)
    bar.value = 1
    say('done')
    remember(answer.data)
  } catch (error) {
    bar.remove()
    say(error.message, 'bad')
  }
}

function remember(uploaded) {
  if (uploaded.guestToken !== undefined) keepToken(uploaded.guestToken)
  folderId = uploaded.parentFolder
  const page = byId('page')
  page.href = uploaded.downloadPage
  page.textContent = uploaded.downloadPage
  byId('account').href = `/profile#token=${keptToken()}`
  byId('shared').hidden = false
}

/** XMLHttpRequest, because fetch reports no upload progress. */
function send(file, onProgress) {
  return new Promise((resolve, reject) => {
    const body = new FormData()
    if (folderId !== undefined) body.append('folderId', folderId)
    body.append('file', file)
    const request = new XMLHttpRequest()
    request.open('POST', form.action)
    const token = keptToken()
    if (token !== undefined) request.setRequestHeader('Authorization', `Bearer ${token}`)
    request.responseType = 'json'
    request.upload.addEventListener('progress', ({ loaded, total }) =>
      onProgress(total > 0 ? loaded / total : 0),
    )
    request.addEventListener('load', () =>
      resolve(request.response ?? { status: 'The service gave no answer.' }),
    )
    request.addEventListener('error', () => reject(new Error('The connection broke. Nothing was stored.')))
    request.send(body)
  })
}

function showTransfer(name) {
  const item = document.createElement('li')
  const label = document.createElement('bdi')
  const state = document.createElement('span')
  const bar = document.createElement('progress')
  label.textContent = name
  state.className = 'quiet'
  item.append(label, ' ', state, bar)
  const say = (text, kind = 'quiet') => {
    state.className = kind
    state.textContent = text
  }
  return { item, bar, say }
}
