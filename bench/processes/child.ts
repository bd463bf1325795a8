/** A part of the bench in a process of its own, so that its CPU time is its own. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { MeasuredProcess } from './measured.ts';
import type { Answers, ChildInput, Question, Started } from './protocol.ts';

export interface Child extends MeasuredProcess {
  url: string | null;
  ask<Q extends Question>(question: Q): Promise<Answers[Q]>;
  close(): Promise<void>;
}

/** `main`: the name of a file beside this one. Rejects when the child ends before it is ready. */
export async function startChild(main: 'bare-worker' | 'worker' | 'facade', input: ChildInput): Promise<Child> {
  const file = fileURLToPath(new URL(`${main}.ts`, import.meta.url));
  const child = fork(file, [JSON.stringify(input)], { execArgv: ['--import', 'tsx'] });
  const ended = once(child, 'exit');
  const { url } = (await messageOf(child, main)) as Started;

  // Answers carry no number: the next question waits for the answer before it.
  let last: Promise<unknown> = Promise.resolve();
  const ask = <Q extends Question>(question: Q): Promise<Answers[Q]> => {
    const asked = last.then(async () => {
      // Sending to a child that has gone would not throw.
      if (!child.connected) throw new Error(`${main} has ended`);
      const answer = messageOf(child, main);
      child.send(question);
      return (await answer) as Answers[Q];
    });
    last = asked.catch(() => undefined);
    return asked;
  };
  return {
    url,
    ask,
    cpuMs: () => ask('cpu'),
    close: async () => {
      if (child.connected) child.disconnect();
      await ended;
    },
  };
}

function messageOf(child: ChildProcess, main: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onMessage = (message: unknown): void => {
      child.off('exit', onExit);
      resolve(message);
    };
    const onExit = (code: number | null): void => {
      child.off('message', onMessage);
      reject(new Error(`${main} ended by itself (${code ?? 'by a signal'})`));
    };
    child.once('message', onMessage);
    child.once('exit', onExit);
  });
}
