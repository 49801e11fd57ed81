/** The parts of an operator's command. */
import { type AdminCall, AdminError } from './admin-client.ts'

export interface Command {
  /** Its name. */
  words: string
  /** Its arguments, as help shows them. */
  usage: string
  meaning: string
  options?: Record<string, 'string' | 'boolean'>
  /**
   * @throws UsageFault when the arguments are invalid.
   * @returns steps, run in order; a failing step does not prevent the others.
   */
  plan(words: string[], options: Options): Step[]
}

export type Options = Record<string, string | boolean | undefined>

/**
 * One call, or a few that belong together. `run` resolves with the line that reports the result;
 * undefined: the lines that it has printed report it.
 */
export interface Step {
  /** Its subject, for messages; empty: the service itself. */
  about: string
  run(
    call: AdminCall,
    printLine: (line: string) => void,
    print: (line: string) => void,
  ): Promise<string | undefined>
}

/** The arguments are invalid: nothing was done. */
export class UsageFault extends Error {
  override readonly name = 'UsageFault'
  readonly code = 'USAGE'
}

/** The one step of a command without further arguments. */
export function whole(others: string[], run: Step['run']): Step {
  if (others.length > 0) throw new UsageFault(`unexpected argument: ${others.join(' ')}`)
  return { about: '', run }
}

export function parseNumber(name: string, text: string | boolean): number {
  if (typeof text !== 'string' || !/^\d{1,15}$/.test(text))
    throw new UsageFault(`--${name} takes a whole number`)
  return Number(text)
}

export function json(value: unknown, indent = '  '): string {
  return JSON.stringify(value, null, indent)
}

/**
 * A call that names no account, so an unknown path is all that can be not found.
 * @param unknown status or words, where the called process does not know the call
 */
export async function known<T>(called: Promise<T>, unknown: string): Promise<T> {
  try {
    return await called
  } catch (error) {
    if (error instanceof AdminError && error.status === 'error-notFound') throw new AdminError(unknown)
    throw error
  }
}
