/**
 * Commands and their verdicts: the signal, then one query that every waiting command of the Task shares.
 *
 *   D1  At most one verdict query is in flight per Task and process: the server buffers few of them.
 *   D2  A command is answered only by a query that started after its signal was acknowledged: Temporal promises that
 *       such a query sees the signal's effect, and promises nothing about one that was under way.
 *   D3  At most `undecidedMax` signalled commands per Task and process are without a verdict; beyond that none is sent.
 *   D4  A key whose signal is acknowledged and undecided is not signalled again.
 */
import { LRUCache } from 'lru-cache';
import { HoldfastError } from '../contracts/errors.ts';
import type { Command, VerdictAnswer, VerdictQuestion } from '../contracts/commands.ts';
import type { TaskView } from '../contracts/task.ts';
import { QUERIES, type VerdictsAnswer } from '../contracts/workflow.ts';
import { answerVerdict } from '../../workflows/task/lifecycle.ts';
import { viewOf } from '../../workflows/task/view.ts';
import { recordOfClosed } from './closed.ts';
import { isFault, type Gateway } from './gateway.ts';

export interface Decided {
  answer: VerdictAnswer;
  /** The Task as it stood when the verdict was read. */
  task: TaskView;
  /** Whether the Task's workflow had closed. */
  closed: boolean;
}

export interface CommandDeskOptions {
  gateway: Gateway;
  undecidedMax: number;
  /** Commands of one Task that may wait for room; more are refused at once. */
  waitingMax: number;
  /** Tasks that the desk keeps in mind; the least recently used are forgotten first. */
  tasksMax: number;
  signalTimeoutMs: number;
  verdictTimeoutMs: number;
}

interface Waiter {
  question: VerdictQuestion;
  resolve: (decided: Decided) => void;
  reject: (error: unknown) => void;
}

interface Undecided {
  question: VerdictQuestion;
  /** Settles with the signal; rejects when it was not acknowledged. */
  acknowledged: Promise<void>;
}

interface TaskDesk {
  undecided: Map<string, Undecided>;
  waiters: Waiter[];
  asking: boolean;
  /** Commands that wait for room, and the look that they share. */
  waiting: number;
  clearing: Promise<void> | null;
}

export class CommandDesk {
  readonly #options: CommandDeskOptions;
  readonly #desks: LRUCache<string, TaskDesk>;

  constructor(options: CommandDeskOptions) {
    this.#options = options;
    this.#desks = new LRUCache({ max: options.tasksMax });
  }

  /**
   * Sends a command, unless it is undecided already, and waits for its verdict. Fails with `temporal-unavailable` when
   * the signal was not acknowledged, with a `GatewayError` when only the verdict could not be read: then it is durable.
   */
  async decide(workflowId: string, command: Command): Promise<Decided> {
    const desk = this.#deskOf(workflowId);
    const id = idOf(command);
    const until = Date.now() + this.#options.signalTimeoutMs;
    // Nothing is awaited between the last look at the cap and the entry, so that it holds whoever else comes (D3).
    while (desk.undecided.size >= this.#options.undecidedMax && !desk.undecided.has(id)) {
      if (Date.now() > until || desk.waiting >= this.#options.waitingMax) throw new HoldfastError('too-many-undecided');
      await this.#makeRoom(workflowId, desk);
    }
    const undecided = desk.undecided.get(id) ?? this.#send(workflowId, desk, command);
    await undecided.acknowledged; // shared by equal commands: each asks only after it (D2, D4)
    const decided = await this.#ask(workflowId, desk, questionOf(command)).catch((error: unknown) => {
      // No such Task: the signal reached nothing, so there is nothing left to be decided.
      if (isFault(error, 'missing') && desk.undecided.get(id) === undecided) desk.undecided.delete(id);
      throw error;
    });
    // Also where the answer is `unknown`: the signal had no effect, so a repeat may be sent.
    if (desk.undecided.get(id) === undecided) desk.undecided.delete(id);
    return decided;
  }

  #send(workflowId: string, desk: TaskDesk, command: Command): Undecided {
    const { gateway, signalTimeoutMs } = this.#options;
    const acknowledged = gateway.signal(workflowId, command, signalTimeoutMs).catch((error: unknown) => {
      // A closed workflow takes no signals, but knows its old verdicts.
      if (isFault(error, 'missing')) return;
      // Not acknowledged: a repeat must send it anew. The workflow decides a key once, however often it comes.
      desk.undecided.delete(idOf(command));
      throw new HoldfastError('temporal-unavailable', undefined, { cause: error });
    });
    const undecided = { question: questionOf(command), acknowledged };
    desk.undecided.set(idOf(command), undecided);
    return undecided;
  }

  #deskOf(workflowId: string): TaskDesk {
    const known = this.#desks.get(workflowId);
    if (known !== undefined) return known;
    const desk: TaskDesk = { undecided: new Map(), waiters: [], asking: false, waiting: 0, clearing: null };
    this.#desks.set(workflowId, desk);
    return desk;
  }

  /** Looks which commands are decided by now; all that wait for room share one look. */
  async #makeRoom(workflowId: string, desk: TaskDesk): Promise<void> {
    desk.waiting += 1;
    try {
      desk.clearing ??= this.#clearUndecided(workflowId, desk).finally(() => {
        desk.clearing = null;
      });
      await desk.clearing;
    } catch (error) {
      throw new HoldfastError('too-many-undecided', undefined, { cause: error });
    } finally {
      desk.waiting -= 1;
    }
  }

  /** Learns which commands have been decided in the meantime. */
  async #clearUndecided(workflowId: string, desk: TaskDesk): Promise<void> {
    const asked = [...desk.undecided];
    const answers = await Promise.all(asked.map(([, { question }]) => this.#ask(workflowId, desk, question)));
    answers.forEach(({ answer }, index) => {
      const [id, undecided] = asked[index] ?? [];
      if (answer.found === 'unknown' || id === undefined) return;
      if (desk.undecided.get(id) === undecided) desk.undecided.delete(id);
    });
  }

  #ask(workflowId: string, desk: TaskDesk, question: VerdictQuestion): Promise<Decided> {
    return new Promise((resolve, reject) => {
      desk.waiters.push({ question, resolve, reject });
      if (!desk.asking) void this.#askAll(workflowId, desk);
    });
  }

  async #askAll(workflowId: string, desk: TaskDesk): Promise<void> {
    desk.asking = true;
    while (desk.waiters.length > 0) {
      // Those that came while the last query ran are served by the next one, never by that one (D1, D2).
      const waiters = desk.waiters.splice(0);
      try {
        // Each question once: it and its answer are payloads, which have their limits.
        const questions = new Map(
          waiters.map(({ question }) => [`${idOf(question)} ${question.fingerprint}`, question]),
        );
        const { answers, task, closed } = await this.#verdicts(workflowId, [...questions.values()]);
        const answerOf = new Map([...questions.keys()].map((asked, index) => [asked, answers[index]]));
        for (const { question, resolve } of waiters) {
          const answer = answerOf.get(`${idOf(question)} ${question.fingerprint}`) ?? { found: 'unknown' as const };
          resolve({ answer, task, closed });
        }
      } catch (error) {
        for (const { reject } of waiters) reject(error);
      }
    }
    desk.asking = false;
  }

  async #verdicts(workflowId: string, questions: VerdictQuestion[]): Promise<VerdictsAnswer & { closed: boolean }> {
    const { gateway, verdictTimeoutMs } = this.#options;
    const until = Date.now() + verdictTimeoutMs;
    for (;;) {
      const leftMs = Math.max(1, until - Date.now());
      try {
        const answer = await gateway.query<VerdictsAnswer>(workflowId, QUERIES.verdict, [questions], leftMs);
        return { ...answer, closed: false };
      } catch (error) {
        if (isFault(error, 'moved-on') && Date.now() < until) continue;
        if (!isFault(error, 'closed')) throw error;
      }
      const record = recordOfClosed(await gateway.readClosed(workflowId, leftMs));
      return {
        answers: questions.map((question) => answerVerdict(record, question)),
        task: viewOf(record),
        closed: true,
      };
    }
  }
}

function questionOf({ kind, key, fingerprint }: VerdictQuestion): VerdictQuestion {
  return { kind, key, fingerprint };
}

function idOf({ kind, key }: { kind: string; key: string }): string {
  return `${kind} ${key}`;
}
