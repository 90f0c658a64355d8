import { type DestinationStream, type Logger, pino } from 'pino'

/** The log of one thread: JSON lines, on stderr by default, with secrets left out. */
export function createLogger(level: string, destination: DestinationStream = pino.destination(2)): Logger {
  return pino(
    {
      level,
      base: { pid: process.pid },
      redact: {
        paths: ['req.headers.authorization', 'headers.authorization', 'authorization', 'token'],
        censor: '***',
      },
    },
    destination,
  )
}
