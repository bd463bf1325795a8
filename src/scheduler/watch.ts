/**
 * Waiting for a Task to change, without holding anything in Temporal: describe, which needs no worker, is asked at an
 * interval, once for all who wait for the same Task; the workflow is queried only when its history grew.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import type { Gateway } from './gateway.ts';

export interface WatchOptions {
  gateway: Gateway;
  intervalMs: number;
  describeTimeoutMs: number;
  /** Who waits beyond this number is not kept waiting: the caller answers at once. */
  waitersMax: number;
}

export class Watch {
  readonly #options: WatchOptions;
  readonly #asked = new Map<string, Promise<string>>();
  #waiters = 0;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /**
   * Yields at once, and then each time that the Task may have changed, until the deadline or the abort of the signal.
   * A look that fails counts as a change: whoever reads next is told what is wrong.
   */
  async *changes(
    workflowId: string,
    { waitMs, signal }: { waitMs: number; signal: AbortSignal },
  ): AsyncGenerator<void> {
    const until = Date.now() + waitMs;
    // Before the first yield: what happens while the caller reads is then a change.
    let seen = waitMs > 0 ? await this.#mark(workflowId) : '';
    yield;
    if (waitMs <= 0 || this.#waiters >= this.#options.waitersMax) return;
    this.#waiters += 1;
    try {
      while (!signal.aborted && Date.now() < until) {
        const pauseMs = Math.min(this.#options.intervalMs, Math.max(1, until - Date.now()));
        await delay(pauseMs, undefined, { signal }).catch(() => {
          // Aborted: the loop ends.
        });
        const mark = await this.#mark(workflowId);
        if (mark === seen && mark !== UNKNOWN) continue;
        seen = mark;
        yield;
      }
    } finally {
      this.#waiters -= 1;
    }
  }

  /** What tells one state of the history from another; equal looks in flight are shared. */
  #mark(workflowId: string): Promise<string> {
    const asked = this.#asked.get(workflowId);
    if (asked !== undefined) return asked;
    const asking = this.#options.gateway
      .describe(workflowId, this.#options.describeTimeoutMs)
      .then(markOf, () => UNKNOWN)
      .finally(() => this.#asked.delete(workflowId));
    this.#asked.set(workflowId, asking);
    return asking;
  }
}

const UNKNOWN = 'unknown';

function markOf({ runId, historyLength, status }: WorkflowExecutionDescription): string {
  return `${runId} ${historyLength} ${status.name}`;
}
