"""What is behind wrong answers: known mistakes by name, where they are made, and the smallest input that shows one."""

from suite.conformance.diagnosis.names import EXAMINED as EXAMINED
from suite.conformance.diagnosis.names import Diagnosis as Diagnosis
from suite.conformance.diagnosis.names import Diagnostician as Diagnostician
