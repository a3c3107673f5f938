// What every page does. Reading needs none of it.
import { follow } from "./live.js";
import { listen } from "./keys.js";
import { tidy } from "./small.js";

listen();
tidy(document);
follow(tidy);
