/** What a run of the bench is asked for. */
import { parseArgs } from 'node:util';

/** The same lifecycle in three forms; all others are told as ratios to the first. */
export const FORM_NAMES = ['bare', 'scheduler', 'http'] as const;
export type FormName = (typeof FORM_NAMES)[number];

export const USAGE = `usage: node --import tsx bench/run.ts [options]
  --tasks N      Tasks of a form in a round, at each concurrency (default 96)
  --rounds N     rounds, each with every form (default 5)
  --only FORM    scheduler or http alone, beside bare; may be repeated
  --save         write the results to bench/results too`;

export interface Options {
  tasks: number;
  rounds: number;
  forms: FormName[];
  save: boolean;
}

/** Throws with what is wrong. */
export function optionsOf(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      tasks: { type: 'string', default: '96' },
      rounds: { type: 'string', default: '5' },
      only: { type: 'string', multiple: true, default: [...FORM_NAMES] },
      save: { type: 'boolean', default: false },
    },
  });
  const unknown = values.only.find((name) => !(FORM_NAMES as readonly string[]).includes(name));
  if (unknown !== undefined) throw new Error(`--only ${unknown}: one of ${FORM_NAMES.join(', ')}`);
  return {
    tasks: wholeNumber('--tasks', values.tasks),
    rounds: wholeNumber('--rounds', values.rounds),
    // Without bare in the same run there is nothing to hold the others against.
    forms: FORM_NAMES.filter((name) => name === 'bare' || values.only.includes(name)),
    save: values.save,
  };
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 100_000) throw new Error(`${name} ${text}: 1 to 100000`);
  return value;
}
