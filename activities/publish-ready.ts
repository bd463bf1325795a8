import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { instantOf } from '../src/contracts/instant.ts';
import { LIMITS } from '../src/contracts/limits.ts';
import type { PublishOutcome, TaskReady } from '../src/contracts/task-ready.ts';
import { PUBLISH_PLACE_WAIT_SECONDS, type PublishPolicy } from '../src/contracts/workflow.ts';
import { cloudEventOf } from '../src/transports/cloud-event.ts';
import { withDeadline } from '../src/transports/deadline.ts';
import { PublishError, type PublishErrorCode, type ReadyTransport } from '../src/transports/port.ts';
import { CustomerSemaphore } from './customer-semaphore.ts';
import { retryDelayMs } from './retry-delay.ts';

/** What the activity is told to log; pino's loggers have this form. */
export interface ActivityLog {
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface PublishReadyDeps {
  readonly transports: { for(queue: string): ReadyTransport | null };
  /** Where executors reach the facade: absolute, without a slash at its end. */
  readonly publicUrl: string;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
  /** In [0, 1). */
  readonly random?: () => number;
  readonly log: ActivityLog;
  /** Publishes in flight of one customer and queue in this process. */
  readonly concurrencyPerCustomer: number;
  /** How long one waits for its place; not longer than what the workflow allows for it. */
  readonly placeWaitMs?: number;
}

export type PublishReady = (ready: TaskReady, policy: PublishPolicy) => Promise<PublishOutcome>;

/** Failure types of the activity: the transports' codes, and its own. Stable: operators filter by them. */
type FailureCode =
  | PublishErrorCode
  /** The configuration has no route for the queue, and no default. */
  | 'no-route'
  /** No place came free among the customer's publishes. */
  | 'customer-busy'
  /** This worker stops; another one goes on. */
  | 'worker-shutdown'
  /** A bug; the log has it. */
  | 'internal';

interface PublishFailure {
  code: FailureCode;
  text: string;
  retryable: boolean;
  retryAfterSeconds?: number | undefined;
}

/**
 * One attempt to publish readiness; Temporal repeats it by the policy (specification: "Ready delivery is at least
 * once"). Returns its attempt number. A failure is an ApplicationFailure whose type is a `FailureCode`, whose message
 * becomes the Task's `lastError`, and whose details carry the attempts. Cancellation ends it with CancelledFailure.
 */
export function createPublishReady(deps: PublishReadyDeps): PublishReady {
  const { transports, publicUrl, log, now = Date.now, random = Math.random } = deps;
  const { placeWaitMs = PUBLISH_PLACE_WAIT_SECONDS * 1000 } = deps;
  const semaphore = new CustomerSemaphore(deps.concurrencyPerCustomer);

  return async function publishReady(ready, policy) {
    const context = Context.current();
    const { attempt } = context.info;
    try {
      const transport = transports.for(ready.queue);
      if (transport === null) throw new AttemptFailure({ code: 'no-route', text: '', retryable: true });
      const event = cloudEventOf(ready, { publicUrl, time: instantOf(now()) });
      const signal = context.cancellationSignal;
      // By queue too: a receiver that hangs must not keep the customer's other queues waiting.
      const key = `${ready.customerId}/${ready.queue}`;
      const busy = (): Error => new AttemptFailure(BUSY);
      const leave = await withDeadline({ signal, ms: placeWaitMs, expired: busy }, (waitSignal) =>
        semaphore.enter(key, waitSignal),
      );
      try {
        // Counted from here: who waited for a place has the whole time all the same.
        const late = (): Error => new AttemptFailure(lateAfter(policy));
        await withDeadline({ signal, ms: attemptMs(policy), expired: late }, async (publishSignal) => {
          try {
            await transport.publish(event, { signal: publishSignal });
          } catch (error) {
            // The transport says that it was stopped; why, only we know.
            if (error instanceof PublishError && error.code === 'aborted') publishSignal.throwIfAborted();
            throw error;
          }
        });
      } finally {
        leave();
      }
      return { attempts: attempt };
    } catch (error) {
      const stopped = context.cancellationSignal.aborted && error === context.cancellationSignal.reason;
      // Shutdown is not a cancellation: Temporal must hear of a failure that another worker may repeat.
      if (stopped && context.cancellationDetails?.workerShutdown !== true) throw error;
      const failure = stopped ? SHUTDOWN : failureOf(error);
      // A stop of ours says nothing about the receiver: the delay need not grow by it.
      const delayMs = retryDelayMs(policy, stopped ? 1 : attempt, {
        random,
        retryAfterSeconds: failure.retryAfterSeconds,
      });
      const { taskId, customerId, queue } = ready;
      const { code, retryable } = failure;
      log.warn({ taskId, customerId, queue, attempt, code, retryable, delayMs }, 'publish attempt failed');
      if (code === 'internal') log.error({ err: error, taskId }, 'publish failed in an unexpected way');
      throw ApplicationFailure.create({
        type: code,
        message: (failure.text === '' ? code : `${code}: ${failure.text}`).slice(0, LIMITS.lastErrorLengthMax),
        nonRetryable: !retryable,
        details: [{ attempts: attempt }],
        nextRetryDelay: delayMs,
        // Temporal's worker would log each with a stack, beside the line above.
        ...(code === 'internal' ? {} : { category: ApplicationFailureCategory.BENIGN }),
      });
    }
  };
}

/** Carries a failure of the activity's own to the one place that reports failures. */
class AttemptFailure extends Error {
  override readonly name = 'AttemptFailure';
  readonly failure: PublishFailure;

  constructor(failure: PublishFailure) {
    super(failure.code);
    this.failure = failure;
  }
}

const SHUTDOWN: PublishFailure = { code: 'worker-shutdown', text: 'the worker stops', retryable: true };

/**
 * The attempt's own bound: shorter than Temporal's for it, which is the policy's time, so that the failure names
 * itself and carries its attempts and delay. One that Temporal ends does neither.
 */
function attemptMs(policy: PublishPolicy): number {
  const timeoutMs = policy.timeoutSeconds * 1000;
  return timeoutMs - Math.min(1000, timeoutMs / 10);
}

const BUSY: PublishFailure = {
  code: 'customer-busy',
  text: 'no place came free among the publishes of this customer and queue',
  retryable: true,
};

function lateAfter(policy: PublishPolicy): PublishFailure {
  return { code: 'timed-out', text: `no answer within ${policy.timeoutSeconds} s`, retryable: true };
}

function failureOf(error: unknown): PublishFailure {
  if (error instanceof AttemptFailure) return error.failure;
  if (error instanceof PublishError) {
    const { code, message, retryable, retryAfterSeconds } = error;
    return { code, text: message, retryable, retryAfterSeconds };
  }
  return { code: 'internal', text: "see the worker's log", retryable: true };
}
