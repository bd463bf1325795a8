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
