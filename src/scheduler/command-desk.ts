/**
 * Commands and their verdicts: the signal, then one query that every waiting command of the Task shares.
 *
 *   D1  At most one verdict query is in flight per Task and process: the server buffers few of them.
 *   D2  A command is answered only by a query that started after its signal was acknowledged: Temporal promises that
 *       such a query sees the signal's effect, and promises nothing about one that was under way.
 *   D3  At most `undecidedMax` signalled commands per Task and process wait for a verdict; beyond that none is sent.
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

interface TaskDesk {
  undecided: Map<string, VerdictQuestion>;
  waiters: Waiter[];
  asking: boolean;
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
    const question = questionOf(command);
    const id = idOf(command);
    if (!desk.undecided.has(id)) {
      if (desk.undecided.size >= this.#options.undecidedMax) await this.#clearUndecided(workflowId, desk);
      desk.undecided.set(id, question);
      try {
        await this.#options.gateway.signal(workflowId, command, this.#options.signalTimeoutMs);
      } catch (error) {
        // Not acknowledged: a repeat must send it anew. The workflow decides a key once, however often it comes.
        desk.undecided.delete(id);
        // A closed workflow takes no signals, but knows its old verdicts.
        if (!isFault(error, 'missing')) throw new HoldfastError('temporal-unavailable', undefined, { cause: error });
      }
    }
    const decided = await this.#ask(workflowId, desk, question);
    desk.undecided.delete(id);
    return decided;
  }

  #deskOf(workflowId: string): TaskDesk {
    const known = this.#desks.get(workflowId);
    if (known !== undefined) return known;
    const desk: TaskDesk = { undecided: new Map(), waiters: [], asking: false };
    this.#desks.set(workflowId, desk);
    return desk;
  }

  /** Learns which commands have been decided in the meantime (D3). */
  async #clearUndecided(workflowId: string, desk: TaskDesk): Promise<void> {
    const asked = [...desk.undecided.values()];
    const tooMany = new HoldfastError('too-many-undecided');
    try {
      const answers = await Promise.all(asked.map((question) => this.#ask(workflowId, desk, question)));
      answers.forEach(({ answer }, index) => {
        const question = asked[index];
        if (answer.found !== 'unknown' && question !== undefined) desk.undecided.delete(idOf(question));
      });
    } catch (error) {
      throw new HoldfastError(tooMany.code, undefined, { cause: error });
    }
    if (desk.undecided.size >= this.#options.undecidedMax) throw tooMany;
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
        const questions = waiters.map(({ question }) => question);
        const { answers, task, closed } = await this.#verdicts(workflowId, questions);
        waiters.forEach(({ resolve }, index) =>
          resolve({ answer: answers[index] ?? { found: 'unknown' }, task, closed }),
        );
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
