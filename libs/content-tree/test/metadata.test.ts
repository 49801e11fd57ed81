/** The cap on an account's metadata: growth is refused, everything else continues. */
import { blank, DirectLink, type Manifest, type UpdateContent } from '@holdfast/wire'
import t from 'tap'
import * as limits from '../src/bounds.ts'
import { blobOf, firstPage, operator, pagesOf, restored, startMs, system, World } from './world.ts'

const cap = 64 * 1024

function describe(world: World, contentId: string, value: string): string {
  return world.status(operator, { updateContent: { contentId, attribute: { $case: 'description', value } } })
}

/** Folders with long descriptions, as many as fit. */
function filled(options: { recycleBin?: boolean } = {}) {
  const world = new World({ metadataBytesMax: cap })
  const root = world.create({ tier: 'premium' })
  if (options.recycleBin) world.ask(operator, { setAccount: { recycleBin: true } })
  const file = world.file(root)
  const folders: string[] = []
  for (let status = 'ok'; status === 'ok'; ) {
    const { id } = world.folder(root)
    status = describe(world, id, 'ä'.repeat(2_000))
    folders.push(id)
  }
  // The rest, in small steps.
  for (let name = 'n'; world.status(operator, { createFolder: { parentFolderId: root, name } }) === 'ok'; )
    name += 'n'
  return { world, root, file, folders }
}

t.test('a full account refuses growth', async (t) => {
  const { world, root, file, folders } = filled()
  t.ok(world.state.metadataBytes <= cap)
  const [first = ''] = folders
  const link = { ...blank(DirectLink), sourceIpsAllowed: ['1.2.3.4'] }
  const blob = blobOf('more')
  const entry = {
    isFolder: false,
    name: 'x',
    mimetype: '',
    blob,
    modTime: 1,
    parent: 0,
    description: '',
    tags: '',
  }
  const manifest: Manifest = { entries: [entry] } as never
  const verifier = { salt: Buffer.alloc(16), hash: Buffer.alloc(32), cost: 14 }
  const growing = {
    'a file': { addFile: { folderId: root, name: 'more', mimetype: '', blob } },
    'a file and its folder': { addFile: { name: 'more', mimetype: '', blob } },
    'a folder': { createFolder: { parentFolderId: root } },
    'a legacy folder': { addLegacyFolder: {} },
    'a description': {
      updateContent: { contentId: root, attribute: { $case: 'description', value: 'x'.repeat(99) } },
    },
    tags: { updateContent: { contentId: file.id, attribute: { $case: 'tags', value: 'x'.repeat(25) } } },
    'a longer name': {
      updateContent: { contentId: file.id, attribute: { $case: 'name', value: 'x'.repeat(255) } },
    },
    'a password': {
      updateContent: { contentId: first, attribute: { $case: 'password', value: { verifier } } },
    },
    'a direct link': { putDirectLink: { contentId: file.id, link } },
    'a copy': { copyContents: { sources: [{ contentId: first, manifest: undefined }], folderId: root } },
    'an import': { copyContents: { sources: [{ contentId: first, manifest }], folderId: root } },
    'the hint': { checkUpload: { folderId: root } },
  }
  for (const [what, ask] of Object.entries(growing))
    t.equal(world.status(operator, ask as never), 'error-limits', what)
})

t.test('a full account is read, moved, shortened and deleted from', async (t) => {
  const { world, root, file, folders } = filled()
  const [first = '', second = ''] = folders
  t.equal(world.status(operator, { readContent: { ...firstPage, contentId: root } }), 'ok')
  t.equal(
    world.status(operator, {
      updateContent: { contentId: file.id, attribute: { $case: 'name', value: 'x' } },
    }),
    'ok',
  )
  t.equal(
    world.status(operator, {
      updateContent: { contentId: file.id, attribute: { $case: 'modTime', value: 9 } },
    }),
    'ok',
  )
  t.equal(world.status(operator, { moveContents: { contentIds: [file.id], folderId: second } }), 'ok')
  t.equal(world.status(operator, { resetToken: { tokenKeyId: 1 } }), 'ok')
  t.equal(describe(world, second, 'short'), 'ok')
  t.equal(world.status(operator, { deleteContents: { contentIds: [first] } }), 'ok')
  t.equal(world.status(operator, { createFolder: { parentFolderId: root, name: 'again' } }), 'ok')
})

t.test('a full account deletes to its bin, and empties it', async (t) => {
  const { world, root, folders } = filled({ recycleBin: true })
  t.equal(world.status(operator, { deleteContents: { contentIds: folders } }), 'ok')
  t.equal(
    world.status(operator, { createFolder: { parentFolderId: root } }),
    'error-limits',
    'the bin counts',
  )
  t.equal(world.status(operator, { emptyBin: {} }), 'ok')
  world.status(system, { tick: {} })
  t.equal(world.status(operator, { createFolder: { parentFolderId: root } }), 'ok')
})

t.test('the count is the size in a checkpoint, slightly overestimated', async (t) => {
  const world = new World()
  const root = world.create()
  for (let at = 0; at < 300; at++) {
    const folder = world.folder(root, { name: `folder ${at}` })
    world.file(folder.id, `${at}`)
    describe(world, folder.id, 'é'.repeat(at))
    const link = { ...blank(DirectLink), domainsAllowed: [`${at}.example.org`] }
    world.ask(operator, { putDirectLink: { contentId: folder.id, link } })
  }
  world.settle()
  // Their outcomes are no metadata.
  world.nowMs += 3_600_000
  world.file(root, 'last')
  world.settle()
  const saved = pagesOf(world.state).reduce((sum, { length }) => sum + length, 0)
  const { metadataBytes } = world.state
  t.ok(metadataBytes >= saved * 0.97 - 2_000 && metadataBytes <= saved * 1.3, `${metadataBytes} and ${saved}`)
  t.equal(restored(world, pagesOf(world.state)).metadataBytes, metadataBytes)
})

type AttributeUpdate = NonNullable<UpdateContent['attribute']>

/** A large value of each. */
const large: { [Name in AttributeUpdate['$case']]: Extract<AttributeUpdate, { $case: Name }>['value'] } = {
  name: 'x'.repeat(255),
  description: 'x'.repeat(2_000),
  tags: Array.from({ length: 10 }, () => 'x'.repeat(24)).join(','),
  isPublic: true,
  password: { verifier: { salt: Buffer.alloc(16, 1), hash: Buffer.alloc(32, 1), cost: 14 } },
  expiry: { expiry: Math.floor(startMs / 1000) + 86_400_000, deleteAfterExpiry: true },
  modTime: Math.floor(startMs / 1000) + 1,
}

for (const [$case, value] of Object.entries(large))
  t.test(`the attribute ${$case} counts with its bytes in a checkpoint`, async (t) => {
    const attribute = { $case, value } as AttributeUpdate
    const world = new World()
    const root = world.create({ tier: 'premium' })
    const folders = Array.from({ length: 300 }, () => world.folder(root).id)
    const update = (contentId = '') => world.status(operator, { updateContent: { contentId, attribute } })
    const before = world.state.metadataBytes
    for (const id of folders.slice(1)) t.equal(update(id), 'ok')
    const grows = world.state.metadataBytes > before
    world.settle()
    // Outcomes are no metadata.
    world.nowMs += 3_600_000
    world.file(root)
    world.settle()
    const { metadataBytes } = world.state
    const saved = pagesOf(world.state).reduce((sum, { length }) => sum + length, 0)
    t.ok(metadataBytes >= saved * 0.97 - 2_000, `counted ${metadataBytes} of ${saved} bytes`)
    world.settings.metadataBytesMax = metadataBytes
    t.equal(update(folders[0]), grows ? 'error-limits' : 'ok', 'in a full account')
  })

t.test('a checkpoint at the cap has a root within its bound', async (t) => {
  const { contentsMax, metadataBytesMax, keyDigestsMax, keyDigestsPerPart, outcomesPerPart, rowsPerPart } =
    limits
  // Each part ends with a page that is not full.
  const parts = (2 * contentsMax) / rowsPerPart + keyDigestsMax / keyDigestsPerPart + 2_048 / outcomesPerPart
  const pages = parts + metadataBytesMax / (160 * 1024)
  // Epoch, number and page, a digest, the part, and what protobuf adds.
  t.ok(pages * (24 + 32 + 2 + 6) < 256 * 1024, `${pages} pages`)
})

t.test('an account of few contents has less metadata, and a part of it for links', async (t) => {
  const MiB = 1024 * 1024
  const world = new World({ metadataBytesMax: 256 * MiB })
  const root = world.create()
  const linked = (contentId: string) => {
    const auth = [{ user: 'u'.repeat(60_000), salt: Buffer.alloc(16), hash: Buffer.alloc(32) }]
    return world.status(operator, { putDirectLink: { contentId, link: { ...blank(DirectLink), auth } } })
  }
  for (const [contents, bytes] of [
    [10, MiB],
    [2_048, 4 * MiB],
  ] as const) {
    world.ask(operator, { setAccount: { limitContents: contents } })
    const { metadataBytes } = world.state
    for (let status = 'ok'; status === 'ok'; ) status = linked(world.file(root).id)
    const links = world.state.metadataBytes - (contents === 10 ? metadataBytes : 0)
    t.ok(links > bytes / 16 - 70_000 && links < bytes / 16 + 5_000, `${links} bytes of links`)
  }
  let status = 'ok'
  while (status === 'ok') {
    const { id } = world.folder(root)
    status = describe(world, id, 'ä'.repeat(2_000))
  }
  t.equal(status, 'error-limits')
  t.ok(
    world.state.metadataBytes > 4 * MiB - 5_000 && world.state.metadataBytes <= 4 * MiB,
    `${world.state.metadataBytes}`,
  )
})
