# Answers of the R package diffpriv, for diffpriv.py: one "name,value,..." a line.
# Usage: Rscript diffpriv.R RECORDS N M K REPEATS
arguments <- commandArgs(trailingOnly = TRUE)
records <- scan(arguments[1], quiet = TRUE)
n <- as.integer(arguments[2])
m <- as.integer(arguments[3])
k <- as.integer(arguments[4])
repeats <- as.integer(arguments[5])
suppressMessages(library(diffpriv))

say <- function(name, ...) cat(paste(c(name, format(c(...), digits = 15)), collapse = ","), "\n")

config <- diffpriv:::.sensitivity_sampler_config
for (gamma in c(0.2, 0.05, 0.01)) {
  point <- config(gamma = gamma)
  say("fewest", gamma, point$m, point$k, point$rho)
}
point <- config(m = 1500, gamma = 0.05)
say("order", 1500, 0.05, point$k, point$rho)
point <- config(m = 1000, gamma = 0.1)
say("order", 1000, 0.1, point$k, point$rho)
point <- config(m = 1000)
say("risk", 1000, point$gamma, point$rho)
refused <- inherits(try(config(m = 1000, gamma = 0.05), silent = TRUE), "try-error")
say("refused", as.numeric(refused))

# The mean, of the records that were written: its sampler asks for n - 1, 1 and 1.
place <- 0
from_file <- function(n) {
  place <<- place + n
  records[(place - n + 1):place]
}
mechanism <- DPMechLaplace(target = mean, dims = 1)
given <- sensitivitySamplerManual(mechanism, oracle = from_file, n = n, m = m, k = k)
say("given", given@sensitivity)

# The mean, of records that R draws itself.
set.seed(1)
start <- proc.time()[["elapsed"]]
drawn <- replicate(repeats, sensitivitySamplerManual(
  mechanism, oracle = rexp, n = n, m = m, k = k)@sensitivity)
say("seconds", proc.time()[["elapsed"]] - start)
say("drawn", mean(drawn), sd(drawn) / sqrt(repeats))
