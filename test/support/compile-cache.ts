/** For `node --import`: test files load the same modules, and should not each compile them. */
import { cacheCompiled } from '../../src/runtime/compile-cache.ts'

cacheCompiled()
