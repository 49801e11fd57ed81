import { Socket } from 'node:net'
import t from 'tap'
import { PiecewiseRequest, takePieces } from '../src/reading/piecewise-request.ts'

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

t.test('small pieces of one read are gathered', async (t) => {
  const request = new PiecewiseRequest(new Socket())
  const taken: number[] = []
  takePieces(request, (piece) => taken.push(piece.length) > 0)
  for (let count = 0; count < 1_000; count++) request.push(Buffer.from('x'))
  await nextTurn()
  t.ok(taken.length < 20, `${taken.length} calls for 1,000 pieces`)
  t.equal(
    taken.reduce((sum, bytes) => sum + bytes, 0),
    1_000,
  )
  request.push(Buffer.from('x'))
  request.push(Buffer.alloc(100))
  t.same(taken.slice(-2), [1, 100], 'a few are passed on as they come')
})

t.test('pieces go past the stream, which keeps none of them', async (t) => {
  const request = new PiecewiseRequest(new Socket())
  let bytes = 0
  const end = takePieces(request, (piece) => {
    bytes += piece.length
    return false
  })
  await nextTurn()
  request.pause()
  for (let count = 0; count < 100; count++) request.push(Buffer.alloc(1_000))
  t.equal(request.readableLength, 0)
  t.equal(bytes, 100_000)
  end()
  request.push(Buffer.alloc(1_000))
  t.equal(request.readableLength, 1_000, 'then it is an ordinary stream again')
})
