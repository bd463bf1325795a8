import type { core } from 'zod';

/** One thing that is wrong with the configuration. Messages never repeat a value: it may be a secret. */
export interface ConfigProblem {
  /** The variable's name, or the path of the setting in the file. */
  readonly where: string;
  readonly message: string;
}

/** The configuration is refused, with everything that is wrong with it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly code = 'invalid-configuration';
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(['The configuration is refused:', ...problems.map((p) => `  ${p.where}: ${p.message}`)].join('\n'));
    this.problems = problems;
  }
}

/** What a schema found, one problem for each unknown key. */
export function problemsOf(issues: readonly core.$ZodIssue[]): ConfigProblem[] {
  return issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({ where: pathOf([...issue.path, key]), message: 'unknown key' }));
    }
    // A record's own message is only that the key is invalid; why, the key's schema says.
    const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
    return [{ where: pathOf(issue.path), message }];
  });
}

function pathOf(path: readonly PropertyKey[]): string {
  return path.length === 0 ? 'the file' : path.map(String).join('.');
}
