/** Small blobs to a node: one request each. */
import { request as httpRequest } from 'node:http'
import { BlobFault, type BlobInfo, type PutOptions, type SmallBlob } from '@holdfast/blob-store'
import { clientRequestHeaders } from '../client-requests.ts'
import { putInfoOf, putPath } from '../put-terms.ts'
import { type ByteLine, faultOfAnswer, responseTo, textOf } from './remote-bytes.ts'

/**
 * One attempt.
 * @throws BlobFault `UNKNOWN` when the connection broke or the time was over before an answer.
 */
export async function putBytes(
  { id, bytes }: SmallBlob,
  options: PutOptions,
  line: ByteLine & { timeoutMs: number },
): Promise<BlobInfo> {
  const { node } = line
  const path = putPath(id, options)
  const request = httpRequest(line.url + path, {
    agent: line.agent,
    method: 'PUT',
    headers: {
      authorization: line.secret.prove({ method: 'PUT', path }),
      'content-length': bytes.length,
      ...clientRequestHeaders(),
    },
  })
  const release = line.beginStream(() => request.destroy(new BlobFault('CLOSED', 'the store is closed')))
  const patience = setTimeout(() => {
    request.destroy(new BlobFault('UNKNOWN', `${node} did not answer in ${line.timeoutMs} ms`))
  }, line.timeoutMs)
  try {
    const response = await responseTo(request, bytes)
    if (response.statusCode !== 200) throw await faultOfAnswer(node, response)
    return putInfoOf(JSON.parse(await textOf(response)), id)
  } catch (error) {
    if (error instanceof BlobFault) throw error
    const { code, message } = error as NodeJS.ErrnoException
    // Nothing was sent when there was no connection at all.
    const wasSent = code !== 'ECONNREFUSED' && code !== 'EHOSTUNREACH' && code !== 'ENOTFOUND'
    throw new BlobFault(wasSent ? 'UNKNOWN' : 'UNAVAILABLE', `${node}: ${message}`, { cause: error })
  } finally {
    clearTimeout(patience)
    release()
  }
}
