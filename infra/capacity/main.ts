/**
 * `npm run capacity`: years of the plan in infra/CAPACITY.md, simulated, one row a case.
 * `-- --years 100` sets how many years each case has (20); `--seed` the first seed (1).
 */
import { commandLine, headOf } from '../command-line.ts'
import { table } from '../documents/table.ts'
import { cases } from './cases.ts'
import { type Outcome, simulateYear } from './year.ts'

const { values, refuse } = commandLine('capacity', headOf(import.meta.filename), {
  years: { type: 'string', default: '20' },
  seed: { type: 'string', default: '1' },
})
const years = Number(values.years)
const seed = Number(values.seed)
if (!Number.isInteger(years) || years < 1 || years > 100_000)
  refuse(`--years ${values.years} is no number of years`)
if (!Number.isInteger(seed) || seed < 0) refuse(`--seed ${values.seed} is no seed`)

const rows = cases.map(({ name, year }) => {
  const outcomes = Array.from({ length: years }, (_, at) => simulateYear(year, seed + at))
  const sum = (of: (outcome: Outcome) => number) => outcomes.reduce((all, outcome) => all + of(outcome), 0)
  const groupYears = sum(({ groups }) => groups)
  return [
    name,
    String(groupYears / years),
    (sum(({ pairsOnOneHost }) => pairsOnOneHost) / years).toFixed(0),
    (sum(({ lostDisks }) => lostDisks) / years).toFixed(1),
    `${sum(({ lostGroups }) => lostGroups)} of ${groupYears}`,
    (sum(({ repairedBytes }) => repairedBytes) / years / 1e12).toFixed(0),
    (sum(({ betweenRegionsBytes }) => betweenRegionsBytes) / years / 1e12).toFixed(0),
    `${sum(({ unplacedCopies }) => unplacedCopies)}, ${sum(({ unplacedAtEnd }) => unplacedAtEnd)}`,
    `${(100 * Math.max(...outcomes.map(({ fullestDisk }) => fullestDisk))).toFixed(0)} %`,
    Math.max(...outcomes.map(({ longestRepairHours }) => longestRepairHours)).toFixed(0),
    Math.max(...outcomes.map(({ longestAloneHours }) => longestAloneHours)).toFixed(0),
  ]
})
console.log(
  table(
    [
      'case',
      'groups',
      'pairs on one host',
      'disks lost a year',
      'groups lost, of group-years',
      'repaired, TB a year',
      'between regions, TB a year',
      'copies without room, at the end',
      'fullest disk',
      'longest repair, h',
      'longest with one copy, h',
    ],
    rows,
  ),
)
