/**
 * Measures what Holdfast costs on top of Temporal: the same life of a Task in three forms, interleaved in one run on one
 * server. docs/performance.md says what is measured and how to read it. Nothing is asserted here.
 */
import { availableParallelism } from 'node:os';
import { pino } from 'pino';
import { nextSignal } from '../src/process.ts';
import { compare } from './compare.ts';
import { drive } from './drive.ts';
import { measure, type Measurement } from './measure.ts';
import { optionsOf, USAGE, type Options } from './options.ts';
import { markdownOf } from './report.ts';
import { save } from './save.ts';
import { openStage, type Opened } from './stage.ts';

const CONCURRENCIES = [1, 32];
/** Before the first round: compiles, connects and fills caches. */
const WARM_UP = { tasks: 48, concurrency: 16 } as const;

const tell = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

async function main(): Promise<number> {
  let options: Options;
  try {
    options = optionsOf(process.argv.slice(2));
  } catch (error) {
    tell(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 2;
  }
  const interrupted = interruption();
  interrupted.catch(() => undefined); // seen when the stage stands
  // The results have standard output for themselves.
  const stage = await openStage(options.forms, pino({ level: 'warn' }, pino.destination(2)));
  try {
    const measurements = await Promise.race([runAll(stage, options), interrupted]);
    const compared = compare(measurements);
    const markdown = markdownOf(compared);
    const { tasks, rounds } = options;
    const conditions = { tasks, rounds, server: stage.serverVersion, node: process.version, cores: cores() };
    const json = { conditions, compared, measurements };
    process.stdout.write(`${markdown}\n${JSON.stringify(json)}\n`);
    if (options.save) {
      const name = new Date().toISOString().replaceAll(/[:.]/g, '-');
      const title = `# ${tasks} Tasks a round, ${rounds} rounds, ${cores()} cores`;
      for (const file of await save(name, { markdown: `${title}\n\n${markdown}`, json })) tell(`written: ${file}`);
    }
    return 0;
  } finally {
    await stage.close();
  }
}

/** The server is a session of its own and would stay: an interrupted run closes what it opened. */
async function interruption(): Promise<never> {
  throw new Error(`interrupted by ${await nextSignal()}`);
}

function cores(): number {
  return availableParallelism();
}

async function runAll(stage: Opened, { tasks, rounds }: Options): Promise<Measurement[]> {
  for (const form of stage.forms) await drive(form, stage.receiver, WARM_UP);
  const measurements: Measurement[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    for (const concurrency of CONCURRENCIES) {
      // Each form comes first, second and last in turn: what one leaves behind is not always the same one's burden.
      const first = round % stage.forms.length;
      for (const form of [...stage.forms.slice(first), ...stage.forms.slice(0, first)]) {
        const measurement = await measure(stage, form, { tasks, concurrency, round });
        measurements.push(measurement);
        const { tasksPerSecond } = measurement;
        tell(`round ${round}/${rounds}, ${concurrency} at a time, ${form.name}: ${tasksPerSecond.toFixed(1)} Tasks/s`);
      }
    }
  }
  return measurements.toSorted(byConcurrencyThenForm(stage.forms.map(({ name }) => name)));
}

function byConcurrencyThenForm(forms: string[]): (one: Measurement, other: Measurement) => number {
  return (one, other) =>
    one.concurrency - other.concurrency ||
    forms.indexOf(one.form) - forms.indexOf(other.form) ||
    one.round - other.round;
}

process.exitCode = await main();
