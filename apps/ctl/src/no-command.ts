/** Suggests commands for an unknown name. */
import type { Command } from './command.ts'

/** A name with more wrong letters is another name. */
const lettersWrongMax = 2
const helpHint = 'all commands: npm run -s ctl -- --help'

/** One line: the error, and the suggestions. */
export function noCommand(words: readonly string[], commands: readonly Pick<Command, 'words'>[]): string {
  const names = commands.map(({ words: name }) => name)
  const [first = '', second] = words
  if (first === '') return `name a command; ${helpHint}`
  const ofGroup = names.filter((name) => name.startsWith(`${first} `))
  const near = nearest(words, ofGroup.length > 0 ? ofGroup : names)
  const meant = near.map((name) => `"${name}"`).join(' or ')
  if (ofGroup.length > 0 && near.length === 0) {
    const wrong =
      second === undefined ? `${first} is not a complete command` : `there is no "${first} ${second}"`
    return `${wrong}: it could be ${ofGroup.map((name) => `"${name}"`).join(', ')}`
  }
  const said = ofGroup.length > 0 || near.some((name) => name.includes(' ')) ? words.slice(0, 2) : [first]
  return `there is no command "${said.join(' ')}"${meant === '' ? '' : `, did you mean ${meant}?`}; ${helpHint}`
}

/** The names closest to the first words; none when all are far. */
function nearest(words: readonly string[], names: readonly string[]): string[] {
  const far = names.map((name) => {
    const said = words.slice(0, name.split(' ').length).join(' ').toLowerCase()
    return { name, wrong: lettersWrong(said, name) }
  })
  const least = Math.min(lettersWrongMax, ...far.map(({ wrong }) => wrong))
  return far.filter(({ wrong }) => wrong === least).map(({ name }) => name)
}

/** Number of letters to insert, delete or replace (Levenshtein). */
function lettersWrong(said: string, name: string): number {
  let row = Array.from({ length: name.length + 1 }, (_, n) => n)
  for (const [n, letter] of [...said].entries()) {
    const next = [n + 1]
    for (let m = 1; m <= name.length; m++)
      next[m] = Math.min(
        (row[m] as number) + 1,
        (next[m - 1] as number) + 1,
        (row[m - 1] as number) + (letter === name[m - 1] ? 0 : 1),
      )
    row = next
  }
  return row[name.length] as number
}
