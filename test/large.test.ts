/** A short form of the large transfers of `npm run test:long`. */
import t from 'tap'
import { largeTransfers } from './long/large.ts'

/**
 * Above what the service holds anyway (300 MiB is the design's aim for four at a time, with a
 * machine's noise), below what was sent.
 */
const peakRssBytesMax = 420 * 1024 * 1024

t.test('four large files at a time come back whole, and memory does not grow with them', async (t) => {
  const figures = await largeTransfers({ files: 4, bytesEach: 96 * 1024 * 1024 + 12_345 })
  t.comment(
    `${Math.round(figures.uploadMs)} ms up, ${Math.round(figures.downloadMs)} ms down, ${figures.peakRssBytes} bytes at most`,
  )
  t.ok((figures.peakRssBytes ?? 0) < peakRssBytesMax, `${figures.peakRssBytes} bytes held at most`)
})
