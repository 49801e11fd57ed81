import assert from 'node:assert/strict'
import { cases } from '../suite.ts'
import { eventually, newAddress, randomContent } from '../world.ts'

export const operator = cases('operator', (test) => {
  test(
    'account calls merge, and are in effect when answered',
    ['POST /admin/accounts/<id>'],
    async (world) => {
      const guest = await world.guest()
      await guest.operator({ tier: 'premium', limits: { contents: 50 } })
      await guest.operator({ recycleBin: true })
      await guest.operator({ limits: { storage: 5_000 } })
      const details = await guest.details()
      assert.deepEqual(
        [details.tier, details.limits.contents, details.limits.storage, details.recycleBin.enabled],
        ['premium', 50, 5_000, true],
      )
      await guest.operator({})
      assert.deepEqual(await guest.details(), details)
      await guest.operator({ premiumType: 'lifetime' })
      assert.equal((await guest.details()).premiumType, 'lifetime')
      for (const tier of ['standard', 'guest', 'premium'] as const) {
        await guest.operator({ tier })
        assert.equal((await guest.call('GET', '/accounts/getid')).ok<{ tier: string }>().tier, tier)
      }
    },
  )

  test('bad calls change nothing', ['POST /admin/accounts/<id>'], async (world) => {
    const guest = await world.guest()
    for (const json of [
      { tier: 'gold' },
      { tier: 5 },
      { recycleBin: 'maybe' },
      { limits: { contents: -1 } },
      { limits: { storage: 'x' } },
      { limits: 5 },
      [],
      'text',
    ]) {
      const { code } = await world.admin('POST', `/admin/accounts/${guest.id}`, json)
      assert.ok([400, 403].includes(code), `${code} for ${JSON.stringify(json)}`)
    }
    assert.equal(
      (await world.admin('POST', '/admin/accounts/ffffffff-ffff-4fff-bfff-ffffffffffff', { tier: 'premium' }))
        .code,
      404,
    )
    assert.ok(
      [400, 404].includes((await world.admin('POST', '/admin/accounts/nonsense', { tier: 'premium' })).code),
    )
    assert.equal((await guest.details()).tier, 'guest')
  })

  test('an account is found by its e-mail, too', ['POST /admin/accounts/<id>'], async (world) => {
    const email = newAddress()
    const standard = await world.standard(email)
    assert.equal((await world.admin('POST', `/admin/accounts/${email}`, { tier: 'premium' })).code, 200)
    assert.equal((await standard.details()).tier, 'premium')
    assert.match((await world.admin('GET', `/admin/accounts/${email}`)).text, new RegExp(standard.id))
  })

  test(
    'legacy folders have a code of 6 and are public, or none and are private',
    ['legacy folders'],
    async (world) => {
      const ann = await world.premium()
      const made = (await world.admin('POST', `/admin/accounts/${ann.id}/legacy-folder`, {})).ok<{
        folderId: string
        code: string
      }>()
      const folder = (await ann.read(made.folderId)).ok()
      assert.deepEqual([folder.code, folder.public, folder.parentFolder], [made.code, true, ann.root])
      const codes = new Set<string>()
      for (let turn = 0; turn < 5; turn++)
        codes.add(
          (await world.admin('POST', `/admin/accounts/${ann.id}/legacy-folder`, {})).ok<{ code: string }>()
            .code,
        )
      assert.equal(codes.size, 5)
    },
  )

  test('collecting frees unreferenced bytes, and only those', ['collect'], async (world) => {
    const ann = await world.premium()
    const [kept, gone] = [randomContent(200_000), randomContent(300_000)]
    const file = await ann.file({ content: kept })
    ;(await ann.remove((await ann.file({ content: gone })).id)).ok()
    const collected = (await world.admin('POST', '/admin/collect', { graceSeconds: 3_600 })).ok<
      Record<string, number>
    >()
    for (const name of ['deleted', 'freedBytes', 'liveBytes', 'blobs'])
      assert.ok(Number.isInteger(collected[name]), `${name} in ${JSON.stringify(collected)}`)
    assert.ok((await world.request('GET', (await ann.read(file.id)).ok().link)).body.equals(kept))
  })

  test('health and metrics answer', ['livez and readyz', 'metrics'], async (world) => {
    for (const path of ['/livez', '/readyz']) assert.equal((await world.admin('GET', path)).code, 200, path)
    await world.guest()
    await eventually(async () => {
      const metrics = await world.admin('GET', '/metrics')
      assert.equal(metrics.code, 200)
      assert.match(metrics.text, /^# TYPE \w+ (counter|gauge|histogram)$/m)
    })
  })
})
