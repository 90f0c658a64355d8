/**
 * Entry of a worker thread that lies beside the importing file: `workerUrl(import.meta.url, './adapter-host')`.
 * It has the importer's own extension, so that it is found in a checkout (`.ts`) and in a build (`.js`) alike:
 * the compiler rewrites import specifiers, but not the text of a `new URL(...)`.
 *
 * @param base `import.meta.url` of the caller.
 * @param name relative path without an extension.
 */
export function workerUrl(base: string, name: string): URL {
  const extension = base.endsWith('.ts') ? '.ts' : '.js'
  return new URL(name + extension, base)
}
