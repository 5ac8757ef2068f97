/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no plugin. */
extern const int hr_no_plugin __attribute__((visibility("default")));
const int hr_no_plugin = 1;
