/** The child's side: starts its part, answers questions, and ends when the bench does, however that ends. */
import { ownCpuMs } from './measured.ts';
import type { Answers, ChildInput, Question, Started } from './protocol.ts';

export interface Part {
  url: string | null;
  calls: () => Answers['calls'];
  stop: () => Promise<void>;
}

export async function serve(start: (input: ChildInput) => Promise<Part>): Promise<void> {
  // A Ctrl-C reaches all processes of the terminal: the bench ends its children itself, in order.
  process.on('SIGINT', () => undefined);
  const part = await start(JSON.parse(process.argv[2] ?? '{}') as ChildInput);
  const answers: { [Q in Question]: () => Answers[Q] } = { cpu: ownCpuMs, calls: part.calls };
  process.on('message', (question: Question) => process.send?.(answers[question]()));
  process.once('disconnect', () => {
    void part.stop().finally(() => process.exit());
  });
  const started: Started = { url: part.url };
  process.send?.(started);
}

/** Of a part that calls Temporal by the worker's core, which no interceptor sees. */
export const NO_CALLS: Answers['calls'] = { calls: {}, repeats: {} };
