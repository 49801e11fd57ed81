import t from 'tap'
import { JsonWriter, numberBytesMax, uuidBytes, writtenNameBytesMax } from '../src/items/json-writer.ts'

function written(write: (json: JsonWriter) => void): string {
  const json = new JsonWriter()
  write(json)
  return json.done().toString()
}

t.test('strings equal the output of JSON.stringify and encodeURIComponent', async (t) => {
  const ascii = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code))
  for (const text of [...ascii, '', 'a b', ascii.join(''), 'é', '\u2028', '😀', 'x'.repeat(5_000), '€"\0']) {
    const both = written((json) => {
      json.reserve(writtenNameBytesMax(text.length))
      json.string(text)
      json.urlPart(text)
    })
    t.equal(both, JSON.stringify(text) + encodeURIComponent(text))
  }
  const lone = '\ud800"'
  t.equal(
    written((json) => json.string(lone)),
    JSON.stringify(lone),
  )
})

t.test('numbers equal the output of JSON.stringify', async (t) => {
  const powers = Array.from({ length: 16 }, (_, exponent) => 10 ** exponent).flatMap((n) => [n - 1, n])
  for (const number of [...powers, 2 ** 32 - 1, 2 ** 32, 2 ** 53, -1, -62_167_219_200, 0.5, 1e300])
    t.equal(
      written((json) => {
        json.reserve(numberBytesMax)
        json.number(number)
      }),
      JSON.stringify(number),
    )
})

t.test('written bytes stay when room is made', async (t) => {
  const bytes = Buffer.from(Array.from({ length: 16 }, (_, n) => n * 17))
  const uuid = '00112233-4455-6677-8899-aabbccddeeff'
  const text = 'é'.repeat(10_000)
  const all = written((json) => {
    json.reserve(2 * uuidBytes)
    const at = json.uuid(bytes, 0)
    json.text(text)
    json.comma()
    json.reserve(uuidBytes)
    json.uuidAgain(at)
    for (let n = 0; n < 5_000; n++) json.comma()
  })
  t.equal(all, `${uuid}${text},${uuid}${','.repeat(5_000)}`)
})
