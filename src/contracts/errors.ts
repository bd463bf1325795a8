import type { RefusalCode } from './commands.ts';

/** Codes of everything that the API can refuse or fail with, beside the refusals of the lifecycle. */
type EdgeCode =
  | 'invalid-request'
  | 'invalid-json'
  | 'unauthenticated'
  | 'forbidden'
  | 'task-not-found'
  | 'route-not-found'
  | 'method-not-allowed'
  | 'not-acceptable'
  | 'request-timeout'
  | 'payload-too-large'
  | 'headers-too-large'
  | 'unsupported-media-type'
  | 'idempotency-key-reused'
  | 'parent-not-found'
  | 'parent-terminal'
  | 'lineage-too-deep'
  | 'too-many-undecided'
  | 'verdict-unavailable'
  | 'temporal-unavailable'
  | 'worker-unavailable'
  | 'unsupported-by-worker'
  | 'internal';

export type ErrorCode = RefusalCode | EdgeCode;

/** The one table from code to HTTP status. */
export const HTTP_STATUS = {
  'invalid-request': 400,
  'invalid-json': 400,
  unauthenticated: 401,
  forbidden: 403,
  'task-not-found': 404,
  'route-not-found': 404,
  'method-not-allowed': 405,
  'not-acceptable': 406,
  'request-timeout': 408,
  'token-consumed': 409,
  'token-mismatch': 409,
  'not-released': 409,
  'claim-expired': 409,
  'claim-mismatch': 409,
  'task-terminal': 409,
  'task-running': 409,
  'unread-messages': 409,
  'read-mark-beyond-end': 409,
  'payload-too-large': 413,
  'unsupported-media-type': 415,
  'idempotency-key-reused': 422,
  'parent-not-found': 422,
  'parent-terminal': 422,
  'lineage-too-deep': 422,
  'mailbox-full': 429,
  'headers-too-large': 431,
  internal: 500,
  'too-many-undecided': 503,
  'verdict-unavailable': 503,
  'temporal-unavailable': 503,
  'worker-unavailable': 503,
  'unsupported-by-worker': 503,
} as const satisfies Record<ErrorCode, number>;

/** A sentence for each code: what it means for the caller and what to do next. */
export const ERROR_TITLE = {
  'invalid-request': 'The request is not of the documented form',
  'invalid-json': 'The body is not JSON that can be kept unchanged',
  unauthenticated: 'The request carries no API key that is in force',
  forbidden: 'The API key has not the scope that this takes',
  'task-not-found': 'There is no such Task',
  'route-not-found': 'There is no such route',
  'method-not-allowed': 'The route does not take this method',
  'not-acceptable': 'The answer can only be JSON',
  'request-timeout': 'The request did not arrive in time',
  'token-consumed': 'The claim token was consumed by an accepted claim',
  'token-mismatch': 'The claim token is not the one of this Task',
  'not-released': 'The Task is not released yet',
  'claim-expired': 'The claim was read too late; repeat it to have it decided afresh',
  'claim-mismatch': 'The claim id is not the one of the running claim',
  'task-terminal': 'The Task has ended',
  'task-running': 'The Task is running',
  'unread-messages': 'A message has arrived that the executor has not seen',
  'read-mark-beyond-end': 'The read mark lies beyond the last message',
  'payload-too-large': 'Something in the request is larger than its limit',
  'unsupported-media-type': 'The body must be application/json',
  'idempotency-key-reused': 'The idempotency key was used with another body',
  'parent-not-found': 'The parent Task does not exist',
  'parent-terminal': 'The parent Task has ended',
  'lineage-too-deep': 'The Task would have too many ancestors',
  'mailbox-full': 'The mailbox is full; mark messages as read first',
  'headers-too-large': 'The headers are larger than their limit',
  internal: 'Holdfast failed; the failure was recorded',
  'too-many-undecided': 'Too many commands of this Task are undecided; nothing was sent',
  'verdict-unavailable': 'The command is durable but its verdict is not known; repeat with this key',
  'temporal-unavailable': 'Temporal cannot be reached; nothing is known to have been recorded',
  'worker-unavailable': 'No worker answered in time; what Temporal alone knows does not suffice',
  'unsupported-by-worker': 'The worker that answered does not know this command; repeat with this key',
} as const satisfies Record<ErrorCode, string>;

/** An answer that is not success, with its code; only bugs throw anything else. */
export class HoldfastError extends Error {
  override readonly name = 'HoldfastError';
  readonly code: ErrorCode;
  /** Fields beside the standard ones of a problem document. */
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, detail?: string, options: { extra?: Record<string, unknown>; cause?: unknown } = {}) {
    super(detail ?? ERROR_TITLE[code], options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.extra = options.extra ?? {};
  }
}
