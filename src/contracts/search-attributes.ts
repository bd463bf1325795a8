/**
 * The search attributes of a Task, by which Temporal lists Tasks and operators filter them in the Web UI.
 *
 * Workflow code imports this file, so it holds constants only: no schema library, no SDK.
 * SQL visibility has room for 10 Keyword attributes and 3 of each other type: this table uses 8 and 2.
 */
export const SEARCH_ATTRIBUTES = {
  TaskStatus: 'Keyword',
  TaskType: 'Keyword',
  TaskCustomer: 'Keyword',
  /** The Task's ready queue. (`TaskQueue` itself is Temporal's own attribute: the workflow's task queue.) */
  TaskQueueName: 'Keyword',
  TaskRoot: 'Keyword',
  TaskParent: 'Keyword',
  TaskDelivery: 'Keyword',
  TaskSource: 'Keyword',
  TaskReleaseAt: 'Datetime',
  TaskCreatedAt: 'Datetime',
} as const satisfies Readonly<Record<string, 'Keyword' | 'Datetime'>>;

export type SearchAttributeName = keyof typeof SEARCH_ATTRIBUTES;

const KEYWORD_LENGTH_MAX = 255;

/**
 * A source as its search attribute holds it, `kind:ref`, cut to what a keyword holds. SQL visibility cannot find a value
 * with a double quote or a backslash, however it is quoted (measured), so these are written as in a URL, and with them
 * the percent sign, control characters and halves of surrogate pairs. Whoever filters by source compares with this form.
 */
export function sourceKeyword(source: string): string {
  const hex = (unit: string): string => `%${unit.charCodeAt(0).toString(16).padStart(2, '0')}`;
  return source.replaceAll(/["\\%\p{Cc}\p{Cs}]/gu, hex).slice(0, KEYWORD_LENGTH_MAX);
}
