/**
 * The stop check (specification: "Cancellation is cooperative and inherited at checks"): whether an executor should go
 * on, from the Task and all its ancestors, asked side by side.
 *
 *   verified missing or terminal Task or ancestor -> stop, naming which
 *   verified active, all of them                  -> go on
 *   anything else, or too late                    -> go on for now, and the fault is recorded (it fails open)
 *
 * A terminal ancestor that was verified beats a failed look-up elsewhere. A parent's success stops its children too.
 */
import { LRUCache } from 'lru-cache';
import type { BaseLogger } from 'pino';
import { isTerminalStatus, TASK_STATUSES, type TaskStatus } from '../contracts/task.ts';
import { QUERIES, type StopCheckAnswer } from '../contracts/workflow.ts';
import { isFault, type Gateway } from './gateway.ts';
import { workflowIdOf } from './identity.ts';

export type StopReason = 'task_missing' | 'task_terminal' | 'ancestor_missing' | 'ancestor_terminal';

export type StopCheck =
  | { shouldStop: true; reason: StopReason; taskId: string; status: TaskStatus | null }
  | { shouldStop: false; reason: 'active' }
  | { shouldStop: false; reason: 'check_failed' };

/** What was verified of one Task. */
type Finding =
  | { verified: 'active'; ancestors: string[] }
  /** The status is null when only the end itself is known. */
  | { verified: 'terminal'; status: TaskStatus | null; ancestors: string[] | null }
  | { verified: 'missing' };

export interface StopCheckerOptions {
  gateway: Gateway;
  log: Pick<BaseLogger, 'error'>;
  /** Bound of the whole check. */
  timeoutMs: number;
  /** Entries of each cache. */
  cacheMax: number;
}

export class StopChecker {
  readonly #options: StopCheckerOptions;
  /** Terminal is for ever. A missing Task may yet be scheduled under its id, so that is asked again. */
  readonly #ended: LRUCache<string, Finding>;
  /** Lineage never changes: it is part of the start input. */
  readonly #lineages: LRUCache<string, string[]>;
  /** Equal look-ups in flight are shared. */
  readonly #inFlight = new Map<string, Promise<Finding>>();

  constructor(options: StopCheckerOptions) {
    this.#options = options;
    this.#ended = new LRUCache({ max: options.cacheMax });
    this.#lineages = new LRUCache({ max: options.cacheMax });
  }

  /** Answers within the bound, and never throws. */
  async check(customerId: string, taskId: string): Promise<StopCheck> {
    const faults: unknown[] = [];
    const found = new Map<string, Finding>();
    const until = Date.now() + this.#options.timeoutMs;

    const look = async (id: string): Promise<Finding | null> => {
      try {
        const finding = await this.#find(workflowIdOf(customerId, id), Math.max(1, until - Date.now()));
        found.set(id, finding);
        return finding;
      } catch (error) {
        faults.push(error);
        return null;
      }
    };

    const known = this.#lineages.get(workflowIdOf(customerId, taskId));
    const own = look(taskId);
    await within(
      until,
      (async () => {
        const ancestors = known ?? ancestorsOf(await own) ?? [];
        await Promise.all([own, ...ancestors.map(look)]);
      })(),
    );
    return this.#conclude(customerId, taskId, { found, faults, known });
  }

  #conclude(
    customerId: string,
    taskId: string,
    { found, faults, known }: { found: Map<string, Finding>; faults: unknown[]; known: string[] | undefined },
  ): StopCheck {
    for (const [id, finding] of found) {
      if (finding.verified === 'active') continue;
      const who = id === taskId ? 'task' : 'ancestor';
      const status = finding.verified === 'terminal' ? finding.status : null;
      return { shouldStop: true, reason: `${who}_${finding.verified}`, taskId: id, status };
    }
    const own = found.get(taskId);
    const ancestors = known ?? ancestorsOf(own ?? null);
    if (own !== undefined && ancestors?.every((id) => found.has(id)) === true) {
      return { shouldStop: false, reason: 'active' };
    }
    this.#options.log.error({ customerId, taskId, faults: faults.map(String) }, 'stop check failed open');
    return { shouldStop: false, reason: 'check_failed' };
  }

  async #find(workflowId: string, timeoutMs: number): Promise<Finding> {
    const ended = this.#ended.get(workflowId);
    if (ended !== undefined) return ended;
    const asking = this.#inFlight.get(workflowId);
    if (asking !== undefined) return asking;
    const finding = this.#ask(workflowId, timeoutMs).finally(() => this.#inFlight.delete(workflowId));
    this.#inFlight.set(workflowId, finding);
    const found = await finding;
    if (found.verified === 'terminal') this.#ended.set(workflowId, found);
    if (found.verified === 'active') this.#lineages.set(workflowId, found.ancestors);
    return found;
  }

  /** By query where a worker answers; else from what Temporal itself knows of the workflow. */
  async #ask(workflowId: string, timeoutMs: number): Promise<Finding> {
    const { gateway } = this.#options;
    const until = Date.now() + timeoutMs;
    const leftMs = (): number => Math.max(1, until - Date.now());
    for (;;) {
      try {
        // Half of the bound, so that the rest suffices for describe when no worker answers.
        const answer = await gateway.query<StopCheckAnswer>(workflowId, QUERIES.stopCheck, [], Math.ceil(leftMs() / 2));
        const { status, ancestors } = answer;
        return isTerminalStatus(status)
          ? { verified: 'terminal', status, ancestors }
          : { verified: 'active', ancestors };
      } catch (error) {
        if (isFault(error, 'moved-on') && Date.now() < until) continue;
        if (isFault(error, 'missing')) return { verified: 'missing' };
        const described = await this.#describedEnd(workflowId, leftMs());
        if (described !== null) return described;
        // The refusal of the query has verified the end, whatever became of the look at its status.
        if (isFault(error, 'closed')) return { verified: 'terminal', status: null, ancestors: null };
        throw error;
      }
    }
  }

  /** Describe proves an end; that a Task is active it proves too late to be of use, so that stays with the query. */
  async #describedEnd(workflowId: string, timeoutMs: number): Promise<Finding | null> {
    try {
      const description = await this.#options.gateway.describe(workflowId, timeoutMs);
      const status = description.searchAttributes['TaskStatus']?.[0] as string | undefined;
      const known = TASK_STATUSES.find((each) => each === status);
      if (known !== undefined && isTerminalStatus(known))
        return { verified: 'terminal', status: known, ancestors: null };
      // Closed without a terminal status of its own: ended by an operator or by Temporal, which reads as canceled.
      const open = ['RUNNING', 'PAUSED', 'UNKNOWN', 'UNSPECIFIED', 'CONTINUED_AS_NEW'].includes(
        description.status.name,
      );
      return open ? null : { verified: 'terminal', status: 'canceled', ancestors: null };
    } catch (error) {
      return isFault(error, 'missing') ? { verified: 'missing' } : null;
    }
  }
}

function ancestorsOf(finding: Finding | null): string[] | null {
  return finding === null || finding.verified === 'missing' ? null : finding.ancestors;
}

/** Waits for the work, or until the moment has come: what is not there by then counts as failed. */
async function within(until: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(1, until - Date.now()));
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}
