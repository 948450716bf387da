import { test } from 'tap'
import { killDatabase } from '../../support/database-kills.ts'

test('replicas survive a killed database', (t) => killDatabase(t, 2))
