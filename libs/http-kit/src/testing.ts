/** For tests of what answers requests. */
import { systemClock } from '@holdfast/kernel'
import type { AnswerBudgetOptions } from './answers/answer-budget.ts'

/** Default parts of a budget in tests. */
export const plainBudget: AnswerBudgetOptions = { metrics: undefined, clock: systemClock }
