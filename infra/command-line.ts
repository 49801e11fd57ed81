/** The options of a program that people start by hand. */
import { readFileSync } from 'node:fs'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/**
 * `--help` prints the usage and ends the program. Unknown options end it with 2, also beside
 * `--help`.
 * @param name of the `npm` script.
 * @returns the options' values, and a function for invalid combinations.
 */
export function commandLine<T extends ParseArgsOptionsConfig>(name: string, usage: string, options: T) {
  const refuse = (why: string): never => {
    console.error(`${name}: ${why}\n\n${usage}`)
    process.exit(2)
  }
  const understand = () => {
    try {
      const { values } = parseArgs({ options: { ...options, help: { type: 'boolean', short: 'h' } } })
      return values as ReturnType<typeof parseArgs<{ options: T }>>['values'] & { help?: boolean }
    } catch (error) {
      return refuse((error as Error).message)
    }
  }
  const values = understand()
  if (values.help) {
    console.log(usage)
    process.exit()
  }
  return { values, refuse }
}

/** The comment at the top of a program's file. */
export function headOf(file: string): string {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines
    .slice(1, lines.indexOf(' */'))
    .map((line) => line.slice(3))
    .join('\n')
}
