/**
 * Ready delivery: the publish activity that a Task has under way, at most one. A normal activity, never a local one:
 * an executor may claim inside the webhook call, and a workflow task that waited for it could never read that claim.
 */
import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  isCancellation,
  log,
  proxyActivities,
  TimeoutFailure,
} from '@temporalio/workflow';
import type { createActivities } from '../../activities/index.ts';
import { epochMsOf } from '../../src/contracts/instant.ts';
import type { TaskReady } from '../../src/contracts/task-ready.ts';
import type { TaskRecord, TaskSpec } from '../../src/contracts/task.ts';
import { PUBLISH_PLACE_WAIT_SECONDS, type TaskPolicy } from '../../src/contracts/workflow.ts';
import type { OwnEvent } from './lifecycle.ts';

type Activities = ReturnType<typeof createActivities>;

export class Publisher {
  readonly #policy: TaskPolicy;
  readonly #report: (event: OwnEvent) => void;
  #underWay: CancellationScope | null = null;
  #disowned: CancellationScope | null = null;

  /** `report` receives `published` or `publish-exhausted`, once for each publish that was not stopped. */
  constructor(policy: TaskPolicy, report: (event: OwnEvent) => void) {
    this.#policy = policy;
    this.#report = report;
  }

  get underWay(): boolean {
    return this.#underWay !== null;
  }

  /** Publishes readiness of the record's pending delivery; a publish under way is replaced. */
  publish(record: TaskRecord): void {
    this.stop();
    const { delivery, spec } = record;
    if (delivery.state !== 'pending') return;
    const totalMs = Math.max(1, epochMsOf(delivery.publishUntil) - Date.now());
    const scope = new CancellationScope();
    this.#underWay = scope;
    scope
      .run(() =>
        this.#activities(spec, totalMs, delivery.round).publishReady(
          readyOf(spec, delivery.eventId),
          this.#policy.publish,
        ),
      )
      .then(
        ({ attempts }) => this.#ended(scope, { kind: 'published', attempts }),
        (failure: unknown) => this.#ended(scope, { kind: 'publish-exhausted', ...exhaustionOf(failure) }),
      );
  }

  /** From now on the outcome of a publish under way is dropped: it belongs to a delivery that was decided about. */
  disown(): void {
    this.#disowned = this.#underWay ?? this.#disowned;
    this.#underWay = null;
  }

  /** Ends a publish that may still be retrying. */
  stop(): void {
    this.disown();
    this.#disowned?.cancel();
    this.#disowned = null;
  }

  #ended(scope: CancellationScope, event: OwnEvent): void {
    if (this.#underWay !== scope) return; // disowned
    this.#underWay = null;
    this.#report(event);
  }

  #activities(spec: TaskSpec, totalMs: number, round: number): Activities {
    const { publish, deliveryTaskQueue } = this.#policy;
    return proxyActivities<Activities>({
      taskQueue: deliveryTaskQueue,
      startToCloseTimeout: (publish.timeoutSeconds + PUBLISH_PLACE_WAIT_SECONDS) * 1000,
      scheduleToCloseTimeout: totalMs,
      // The activity itself shortens each delay by jitter, which Temporal has none of (`nextRetryDelay`).
      retry: {
        initialInterval: publish.initialSeconds * 1000,
        backoffCoefficient: publish.factor,
        maximumInterval: publish.maximumSeconds * 1000,
        maximumAttempts: publish.attempts,
      },
      cancellationType: ActivityCancellationType.TRY_CANCEL,
      // By queue too: one whose receiver hangs must not hold up the customer's others. The server takes 64 characters.
      priority: { priorityKey: spec.priority, fairnessKey: `${spec.customerId}/${spec.queue}`.slice(0, 64) },
      summary: `task.ready to queue ${spec.queue}, round ${round}`,
    });
  }
}

function readyOf(spec: TaskSpec, deliveryEventId: string): TaskReady {
  const { taskId, customerId, type, queue, priority, lineage, source, releaseAt } = spec;
  return { taskId, customerId, type, queue, priority, deliveryEventId, lineage, source, releaseAt };
}

/** Attempts and the last error of a publish that was given up. Temporal forgets both with the activity. */
function exhaustionOf(failure: unknown): { attempts: number; lastError: string } {
  if (isCancellation(failure)) return { attempts: 0, lastError: 'publish canceled from outside' };
  const cause = failure instanceof ActivityFailure ? failure.cause : failure;
  if (cause instanceof ApplicationFailure) {
    const detail = cause.details?.[0] as { attempts?: unknown } | undefined;
    return { attempts: typeof detail?.attempts === 'number' ? detail.attempts : 0, lastError: cause.message };
  }
  if (cause instanceof TimeoutFailure) return { attempts: 0, lastError: `timed out: ${cause.timeoutType}` };
  log.warn('publish failed in an unexpected way', { failure: String(failure) });
  return { attempts: 0, lastError: String(cause) };
}
