import type { Instant } from './instant.ts';
import type { Json } from './json.ts';
import type { ReportedEffect } from './reported-effect.ts';

/**
 * One idiom: a command is a signal, a verdict is a query. Each kind is the name of a signal, so that a history and the
 * Web UI read in the scheduler's words.
 */
export const COMMAND_KINDS = ['claim', 'message', 'mark-read', 'cancel', 'result', 'redeliver'] as const;
export type CommandKind = (typeof COMMAND_KINDS)[number];

/** What every command carries. (kind, key) identifies it; the fingerprint of its body tells a reused key. */
interface CommandBase {
  key: string;
  fingerprint: string;
}

export interface ClaimCommand extends CommandBase {
  kind: 'claim';
  deliveryEventId: string;
  executorId: string | null;
  /** Read later than this, the claim is refused: it must not bind a Task to an executor that has gone. */
  expiresAt: Instant;
}

export interface MessageCommand extends CommandBase {
  kind: 'message';
  messageId: string;
  body: Json;
}

export interface MarkReadCommand extends CommandBase {
  kind: 'mark-read';
  upTo: number;
}

export interface CancelCommand extends CommandBase {
  kind: 'cancel';
  reason: string | null;
}

export interface ResultCommand extends CommandBase {
  kind: 'result';
  success: boolean;
  summary: string | null;
  output: Json;
  effects: ReportedEffect[];
  error: Json;
  /** Fences the result: only this accepted claim may end the run. Null: no fence. */
  claimId: string | null;
  /** Refuses the result when a message with a higher number has arrived. Null: no such check. */
  ifMailboxSeq: number | null;
}

export interface RedeliverCommand extends CommandBase {
  kind: 'redeliver';
}

export type Command =
  ClaimCommand | MessageCommand | MarkReadCommand | CancelCommand | ResultCommand | RedeliverCommand;

/** Why a command was refused. Stable words: clients decide on them. */
export const REFUSAL_CODES = [
  'token-consumed',
  'token-mismatch',
  'not-released',
  'claim-expired',
  'claim-mismatch',
  'task-terminal',
  'task-running',
  'unread-messages',
  'mailbox-full',
  'read-mark-beyond-end',
] as const;
export type RefusalCode = (typeof REFUSAL_CODES)[number];

export type VerdictCode = 'accepted' | RefusalCode;

/** Whether a verdict stands for good. The others are decided afresh when the command comes again. */
export function isFinalVerdict(code: VerdictCode): boolean {
  return code !== 'claim-expired';
}

/** What the workflow decided about one command. */
export interface Verdict {
  kind: CommandKind;
  key: string;
  code: VerdictCode;
  /** The moment of the decision, on Temporal's clock. */
  at: Instant;
  /** The record's revision when it was decided. */
  revision: number;
  /** Of an accepted message: where it stands. */
  message?: { messageId: string; seq: number };
}

/** What is asked of the verdict query, several at once. */
export interface VerdictQuestion {
  kind: string;
  key: string;
  fingerprint: string;
}

/**
 * unknown: not decided (yet), which is not a refusal · unknown-command: this worker's code does not know the kind ·
 * key-reused: the key was decided for another body.
 */
export type VerdictAnswer =
  | { found: 'verdict'; verdict: Verdict }
  | { found: 'unknown' }
  | { found: 'unknown-command' }
  | { found: 'key-reused' };
