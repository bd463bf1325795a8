export { loadConfig, taskPolicyOf, type Config, type RouteConfig } from './config.ts';
export type { LogLevel } from './environment.ts';
export { ConfigError, type ConfigProblem } from './problems.ts';
export { Secret } from './secret.ts';
