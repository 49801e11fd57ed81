import { BlockList, isIPv6 } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { networkOf, outerNetworkOf, siteOf } from '../src/index.ts'
import { normalAddress } from '../src/rate-limits/addresses.ts'

t.test('an address has one spelling', async (t) => {
  for (const [text, normal] of Object.entries({
    '1.2.3.4': '1.2.3.4',
    '::ffff:1.2.3.4': '1.2.3.4',
    '::FFFF:1.2.3.4': '1.2.3.4',
    '0:0:0:0:0:ffff:102:304': '1.2.3.4',
    '1.2.3.4:5555': '1.2.3.4',
    '[::ffff:102:304]:80': '1.2.3.4',
    '::ffff:0:102:304': '::ffff:0:102:304',
    '[2001:DB8::1]:80': '2001:db8::1',
    ' 2001:db8:0:0:0:0:0:1 ': '2001:db8::1',
    'fe80::1%eth0': 'fe80::1',
    '0:0:1::': '0:0:1::',
    '::': '::',
  }))
    t.equal(normalAddress(text), normal, text)
  for (const text of ['', 'nonsense', '127.1', '0x7f.1', '01.2.3.4', '1.2.3.4.5', '2001:db8', '[::1', '::1]'])
    t.equal(normalAddress(text), undefined, text)
})

t.test('networks of v4 and of what is no address', async (t) => {
  t.same(
    [networkOf('1.2.3.4'), siteOf('1.2.3.4'), outerNetworkOf('1.2.3.4')],
    ['1.2.3.4', undefined, '1.2.0.0/16'],
  )
  t.same([networkOf('an id'), siteOf('an:id'), outerNetworkOf('an:id')], ['an id', undefined, 'an:id'])
})

t.test('networks of v6, also of many zeros', async (t) => {
  t.same(
    ['2001:db8:1:2:3::4', '::1', '0:0:1::', '0:0:0:5::1'].map((text) => networkOf(text)),
    ['2001:db8:1:2::/64', '::/64', '0:0:1::/64', '0:0:0:5::/64'],
  )
  const group = fc.oneof(fc.constantFrom(0, 0, 1), fc.nat(0xffff))
  const groups = fc.array(group, { minLength: 8, maxLength: 8 })
  fc.assert(
    fc.property(groups, groups, (one, other) => {
      const address = normalAddress(one.map((part) => part.toString(16)).join(':')) as string
      if (!isIPv6(address)) return
      for (const [bits, of] of [
        [64, networkOf],
        [48, siteOf],
        [32, outerNetworkOf],
      ] as const) {
        const network = of(address) as string
        const block = new BlockList()
        block.addSubnet(network.slice(0, network.indexOf('/')), bits, 'ipv6')
        const neighbour = [...one.slice(0, bits / 16), ...other.slice(bits / 16)]
          .map((part) => part.toString(16))
          .join(':')
        const normal = normalAddress(neighbour) as string
        if (!block.check(address, 'ipv6')) throw new Error(`${network} has not ${address}`)
        if (isIPv6(normal) && of(normal) !== network)
          throw new Error(`${normal} and ${address} share ${bits} bits`)
        if (normalAddress(network.slice(0, network.indexOf('/'))) !== network.slice(0, network.indexOf('/')))
          throw new Error(`${network} is not canonical`)
      }
    }),
    { numRuns: 2_000 },
  )
})
