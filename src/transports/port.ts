import type { TaskReadyCloudEvent } from '../contracts/task-ready.ts';

/**
 * Carries `task.ready` to where executors wait for it, at least once: an event may arrive again, with the same id. Every
 * adapter passes the same suite, `test/conformance/ready-transport.ts`.
 */
export interface ReadyTransport {
  /**
   * Resolves when the peer has taken the event. Throws `PublishError` when it has not, or when that is not known; an
   * abort of the signal ends it soon, with `aborted`. Its own bounds end it even when the signal never does.
   */
  publish(event: TaskReadyCloudEvent, options: { signal: AbortSignal }): Promise<void>;
  /** Ends connections, and publishes under way. May be called again. */
  close(): Promise<void>;
}

/**
 * Why a publish failed, each with whether it may be repeated: the one table. Not retryable is only what the peer can
 * never take, however often it is sent; a wrong deployment is repaired while attempts, which are bounded, last.
 */
const RETRYABLE = {
  /** The signal was aborted. */
  aborted: true,
  /** The transport's own bound passed. */
  'timed-out': true,
  /** The target's name has no address, or cannot be looked up. */
  'name-not-resolved': true,
  /** The target is an address that this route may not reach. */
  'address-refused': true,
  /** No connection came about. */
  'connect-failed': true,
  /** The peer's certificate was not accepted. */
  'tls-failed': true,
  /** The connection broke before the answer: whether the event was taken is not known. */
  'connection-lost': true,
  /** What came back is not an answer of the protocol. */
  'bad-answer': true,
  /** The peer points elsewhere; that is not followed. */
  redirect: true,
  /** The peer wants no more events, for good. */
  gone: false,
  /** The peer will not take this event, which never changes. */
  rejected: false,
  /** The peer answered that it did not take the event, as it may later. */
  refused: true,
  /** The peer asks for fewer events. */
  throttled: true,
  /** The peer is there but cannot do its work. */
  unavailable: true,
} as const satisfies Record<string, boolean>;

export type PublishErrorCode = keyof typeof RETRYABLE;

/**
 * A publish that failed. The message names what the peer did and never repeats its words, the target's URL, or any
 * secret: it becomes part of the Task's record.
 */
export class PublishError extends Error {
  override readonly name = 'PublishError';
  readonly code: PublishErrorCode;
  /** What the peer asked to wait, not yet clamped by the policy. */
  readonly retryAfterSeconds?: number;

  constructor(
    code: PublishErrorCode,
    message: string,
    options: { retryAfterSeconds?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    if (options.retryAfterSeconds !== undefined) this.retryAfterSeconds = options.retryAfterSeconds;
  }

  get retryable(): boolean {
    return RETRYABLE[this.code];
  }
}
