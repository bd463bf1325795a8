/** What the bench and its child processes say to each other: one question after the other, each with one answer. */
import type { CallCounter } from '../call-counter.ts';

/** What a child needs to know, given as its one argument. */
export interface ChildInput {
  temporalAddress: string;
  receiverUrl: string;
}

export type Question = 'cpu' | 'calls';

export interface Started {
  /** Where the child listens; null where it does not. */
  url: string | null;
}

export interface Answers {
  cpu: number;
  calls: ReturnType<CallCounter['take']>;
}
